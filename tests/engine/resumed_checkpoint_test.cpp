#include "checkpoint/container.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/verify.hpp"
#include "engine/resumed_run.hpp"
#include "support/catch.hpp"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using namespace resumed;

namespace {

/// Images of which some cannot be read.
class DamagedImages final : public data::Dataset, public data::ImageStore {
 public:
  explicit DamagedImages(std::set<std::int64_t> damaged) : damaged_(std::move(damaged)) {}
  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] const data::Layout& layout() const override { return images_.layout(); }
  [[nodiscard]] std::int64_t classes() const override { return images_.classes(); }
  void fill(std::span<const std::int64_t> indices, data::Rows rows) const override {
    for (const std::int64_t index : indices) ENSURE(data, !damaged_.contains(index), "broken");
    images_.fill(indices, rows);
  }
  [[nodiscard]] std::string fingerprint() const override { return images_.fingerprint(); }
  [[nodiscard]] const data::ImageStore* images() const override { return this; }
  [[nodiscard]] data::StoredImage read(std::int64_t index,
                                       std::vector<std::byte>& scratch) const override {
    ENSURE(data, !damaged_.contains(index), "broken");
    return images_.read(index, scratch);
  }
  [[nodiscard]] std::string name(std::int64_t index) const override { return images_.name(index); }

 private:
  FakeImages images_{20};
  std::set<std::int64_t> damaged_;
};

/// Returns a run that may skip up to two damaged samples.
std::unique_ptr<FakeRun> make_damaged(const std::set<std::int64_t>& damaged) {
  auto run = std::make_unique<FakeRun>();
  data::LoaderOptions with;
  with.batch_size = run->sizes.batch;
  with.order = data::Order::shuffled;
  with.on_error = data::OnError::skip;
  with.max_skipped = 2;
  run->train = std::make_unique<data::Loader>(
      data::Pipeline{.dataset = std::make_shared<DamagedImages>(damaged)}, with);
  run->options.max_epochs = 2;
  run->options.saving = train::Saving{};
  return run;
}

/// Copies the checkpoint with changed values in its metadata.
fs::path altered(const fs::path& checkpoint, const fs::path& folder,
                 const std::function<void(Json&)>& change) {
  checkpoint::Manifest manifest = checkpoint::read_manifest(checkpoint);
  const container::File file(checkpoint::Store::part(checkpoint, 0));
  Json meta = file.meta();
  change(meta["training"]);
  checkpoint::Store store(folder);
  const fs::path copy = store.begin(manifest.moment());
  const fs::path part = checkpoint::Store::part(copy, 0);
  container::write(part, file.entries(), meta);
  if (const fs::path best = checkpoint / "best.safetensors"; fs::exists(best))
    fs::copy_file(best, copy / "best.safetensors");
  manifest.parts[0].bytes = fs::file_size(part);
  manifest.parts[0].checksum = container::stored_checksum(part);
  store.commit(copy, manifest);
  return copy;
}

}  // namespace

TEST_CASE("checkpoint: the checkpoint of a truncated epoch has the epoch's metric") {
  const auto run = make({});
  run->options.max_steps = 8;
  run->run();
  const checkpoint::Store store(run->folder.path() / "checkpoints");
  const auto found = store.list();
  REQUIRE(found.size() == 2);
  CHECK(found[0].moment == checkpoint::Moment{8, 1});
  CHECK(found[0].manifest->reason == "max_steps");
  CHECK(found[0].manifest->step_in_epoch == 2);
  CHECK(found[0].manifest->value == value_of(run->all<events::EpochEnded>()[1], "val/loss"));
}

TEST_CASE("resume: damaged samples before the stop count towards max_skipped") {
  const auto first = make_damaged({3, 11});
  first->options.max_epochs = 1;
  first->run();
  CHECK(first->all<events::Warning>().size() == 2);
  const auto same = make_damaged({3, 11});
  same->resume = last_of(*first);
  CHECK(same->run().epochs == 2);
  CHECK(same->all<events::Warning>().empty());  // reported before
  const auto more = make_damaged({5, 11});
  more->resume = last_of(*first);
  CHECK(error_of(*more).kind() == ErrorKind::data);
}

TEST_CASE("checkpoint: records the position at which a run resumes") {
  const auto run = make({});
  after_step(8)(*run);
  run->run();
  const checkpoint::Store store(run->folder.path() / "checkpoints");
  const auto found = store.list();
  REQUIRE(found.size() == 2);
  CHECK(found[0].manifest->reason == "signal");
  CHECK(found[0].manifest->epoch == 1);
  CHECK(found[0].manifest->step_in_epoch == 2);
  CHECK(found[0].manifest->facts.at("samples_in_epoch") == "8");
  CHECK_FALSE(found[0].manifest->value.has_value());
  CHECK(found[1].manifest->reason == "every_n_epochs");
  CHECK(found[1].manifest->epoch == 1);
  CHECK(found[1].manifest->step_in_epoch == 0);
  CHECK(found[1].manifest->global_step == 6);
  CHECK(found[1].manifest->value.has_value());
  CHECK(store.pointed(checkpoint::Link::last) == found[0].path);
  CHECK(store.pointed(checkpoint::Link::best) == found[1].path);
}

TEST_CASE(
    "resume: a state that only the run or only the checkpoint has is an error with its name") {
  const auto first = make({});
  first->run();
  const fs::path checkpoint = last_of(*first);
  const auto other = make({.optimizer = "adam", .optimizer_options = "{lr: 0.1}"});
  other->resume = checkpoint;
  CHECK_THROWS_WITH(other->run(), Contains("momentum_buffer"));
  const auto averaged = make({.ema = true});
  averaged->resume = checkpoint;
  CHECK_THROWS_WITH(averaged->run(), Contains("'averager' is missing"));
}

TEST_CASE("resume: a checkpoint with an invalid position is rejected") {
  const auto first = make({});
  after_step(8)(*first);
  first->run();
  const fs::path good = last_of(*first);
  const auto resume_with = [&](const std::function<void(Json&)>& change) {
    const auto run = make({});
    run->resume = altered(good, run->folder.path() / "from", change);
    return error_of(*run);
  };
  for (const std::int64_t rows : {-64, 23}) {
    const Error error = resume_with([rows](Json& values) { values["rows_in_epoch"] = rows; });
    CHECK(error.kind() == ErrorKind::checkpoint);
    CHECK_THAT(error.what(), Contains(std::to_string(rows) + " samples"));
  }
  for (const char* key : {"epoch", "step_in_epoch", "global_step"}) {
    INFO(key);
    const Error error = resume_with([key](Json& values) { values["position"][key] = 3; });
    CHECK(error.kind() == ErrorKind::checkpoint);
    CHECK_THAT(error.what(), Contains("its files are from different steps: 'manifest' from step"));
  }
}

TEST_CASE("resume: with other data the current epoch restarts, and its steps stay counted") {
  const auto first = make({});
  after_step(8)(*first);  // the second batch of the second epoch
  first->run();
  const auto again = make({});
  again->sizes.samples = 5;
  again->train = again->train_loader();
  again->resume = last_of(*first);
  CHECK_THAT(
      error_of(*again).what(),
      Contains("it was saved after 8 samples of an epoch, but an epoch of this run has only 5"));
  again->resume_epoch = train::PartialEpoch::restart;
  again->events.clear();
  const events::Finished finished = again->run();
  CHECK(finished.epochs == 4);
  CHECK(finished.global_step == 8 + 3 * 2);  // batches of 4 and 1
  const auto epochs = again->all<events::EpochEnded>();
  REQUIRE(epochs.size() == 3);
  CHECK(epochs[0].epoch == 1);
  CHECK(epochs[0].global_step == 10);
  CHECK(epochs[0].timing.samples == 5);
  CHECK(again->all<events::StepLogged>().front().global_step == 9);
}

TEST_CASE("resume: a restarted epoch keeps only the weights of its first attempt") {
  const auto first = make({});
  after_step(8)(*first);
  first->run();
  const auto loss_of = [&](const std::function<void(Json&)>& change) {
    const auto run = make({});
    run->resume = altered(last_of(*first), run->folder.path() / "from", change);
    run->resume_epoch = train::PartialEpoch::restart;
    run->options.max_epochs = 2;
    run->run();
    const auto epochs = run->all<events::EpochEnded>();
    REQUIRE(epochs.size() == 1);
    CHECK(epochs[0].timing.samples == 22);
    return std::pair(value_of(epochs[0], "train/loss"), epochs[0].data_digest);
  };
  const auto expected = loss_of([](Json&) {});
  CHECK(loss_of([](Json& values) {
          values["digest"] = 12345;
          values["rows_in_epoch"] = 4;
        }) == expected);
}

TEST_CASE("resume: other data changes nothing at the end of an epoch") {
  Variant variant;
  const auto whole = make(variant);
  const events::Finished expected = whole->run();
  const auto first = make(variant);
  first->options.max_epochs = 2;
  first->run();
  const auto again = make(variant);
  again->resume = last_of(*first);
  again->resume_epoch = train::PartialEpoch::restart;
  CHECK(again->run().parameter_digest == expected.parameter_digest);
}

TEST_CASE("resume: a run that reached max_steps does not restart its epoch") {
  const auto first = make({});
  first->options.max_steps = 8;
  first->run();
  const auto again = make({});
  again->options.max_steps = 8;
  again->resume = last_of(*first);
  again->resume_epoch = train::PartialEpoch::restart;
  const events::Finished finished = again->run();
  CHECK(finished.global_step == 8);
  CHECK(finished.stop_reason == "max_steps");
  CHECK(again->all<events::EpochEnded>().empty());
}

TEST_CASE(
    "weights_only: checkpoints hold weights and averages, and resuming from them is an error") {
  const auto run = make({.ema = true});
  run->options.saving->weights_only = true;
  run->options.saving->every_n_steps = 4;
  run->options.saving->top_k = -1;
  after_step(9)(*run);
  CHECK(run->run().stop_reason == "signal");
  CHECK_FALSE(run->saved_the_end);
  const auto found = checkpoint::Store(run->folder.path() / "checkpoints").list();
  REQUIRE(found.size() == 4);  // after steps 9, 8, 6 and 4
  for (const checkpoint::StoredCheckpoint& one : found) {
    INFO(one.name);
    REQUIRE(one.manifest.has_value());
    CHECK(one.manifest->facts.at("weights_only") == "true");
    const container::File file(checkpoint::Store::part(one.path, 0));
    CHECK(file.find("model/weight") != nullptr);
    CHECK(file.find("averager/weight") != nullptr);
    for (const container::Entry& entry : file.entries())
      CHECK((entry.name.starts_with("model/") || entry.name.starts_with("averager/")));
    CHECK(file.meta().at("training").at("averager").contains("updates"));
  }
  const auto next = make({.ema = true});
  next->resume = found.front().path;
  CHECK(error_of(*next).kind() == ErrorKind::checkpoint);
}

TEST_CASE("resume: a checkpoint newer than the resumed one is an error, and it is kept") {
  Variant variant;
  const auto run = make(variant);
  run->options.saving->top_k = -1;
  run->run();
  const fs::path folder = run->folder.path() / "checkpoints";
  const auto before = checkpoint::Store(folder).list();
  REQUIRE(before.size() == 4);
  run->options.max_epochs = 3;
  run->resume = before[1].path;
  const Error error = error_of(*run);
  CHECK(error.kind() == ErrorKind::checkpoint);
  CHECK_THAT(error.what(), Contains(before[0].name));
  run->resume.clear();
  CHECK(error_of(*run).kind() == ErrorKind::checkpoint);
  CHECK(checkpoint::Store(folder).list().size() == 4);
  fs::remove_all(before[0].path);
  run->resume = before[1].path;
  run->run();
  CHECK(checkpoint::Store(folder).list().size() == 3);
}
