#include "base/container.hpp"
#include "base/json_memo.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/verify.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

namespace fs = std::filesystem;

struct Variant {
  std::string optimizer = "sgd";
  std::string optimizer_options = "{lr: 0.1, momentum: 0.9}";
  std::string scheduler = "constant_lr";
  std::string scheduler_options = "{}";
  std::int64_t accumulate = 1;
  bool ema = false;
  bool stops_early = false;
  double dropout = 0;
};

constexpr std::int64_t kEpochs = 4;

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

/// Two damaged samples may be replaced.
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

/// 22 samples in batches of 4: six batches an epoch, the last one uneven.
std::unique_ptr<FakeRun> make(const Variant& variant) {
  auto run = std::make_unique<FakeRun>(FakeRun::Sizes{.samples = 22, .batch = 4});
  const stage::Catalogue catalogue = stages::builtin_catalogue();
  run->real_optimizer = catalogue.optimizers.build(
      stages_test::stage("optimizer", variant.optimizer, variant.optimizer_options),
      {run->model.parameters()});
  const std::int64_t steps = (6 + variant.accumulate - 1) / variant.accumulate;
  run->real_scheduler = catalogue.schedulers.build(
      stages_test::stage("scheduler", variant.scheduler, variant.scheduler_options),
      {run->real_optimizer->initial_lr(), kEpochs, steps, {}});
  if (variant.stops_early) {
    run->real_stopper = catalogue.stoppers.build(
        stages_test::stage("stopper", "patience",
                           "{monitor: val/loss, patience: 1, restore_best: true, min_delta: 0.01}"),
        {});
  }
  run->model.dropout = variant.dropout;
  run->options.max_epochs = kEpochs;
  run->options.log_every = 1;
  run->options.accumulate = variant.accumulate;
  run->options.monitor = "val/loss";
  run->options.saving = train::Saving{};
  if (variant.ema) run->options.averaging = train::Averaging{0.9, {2}, 0};
  return run;
}

/// What a run leaves, to be compared bit for bit.
struct Course {
  std::vector<std::string> told;  // log lines and epochs, without times
  std::vector<std::string> weights;
  std::vector<std::string> optimizer;
  std::string finished;
};

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().contiguous();
  return {static_cast<const char*>(host.const_data_ptr()), host.nbytes()};
}

void note(FakeRun& run, Course& course) {
  const auto exact = [](double value) { return fmt::format("{:a}", value); };
  for (const auto& event : run.events) {
    if (const auto* step = std::get_if<events::StepLogged>(&event)) {
      course.told.push_back(fmt::format("step {} of epoch {}: {} {}", step->global_step,
                                        step->epoch, exact(step->loss), exact(step->lr)));
    } else if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) {
      std::string line =
          fmt::format("epoch {} at {}: {} {} {} {}", epoch->epoch, epoch->global_step,
                      exact(epoch->lr), epoch->data_digest, epoch->improved, epoch->timing.samples);
      for (const auto& [name, value] : epoch->metrics) line += " " + name + "=" + exact(value);
      course.told.push_back(line);
    }
  }
}

void note_end(FakeRun& run, const events::Finished& finished, Course& course) {
  note(run, course);
  for (const auto& [name, tensor] : train::weights_of(run.model))
    course.weights.push_back(name + bytes_of(tensor));
  for (const auto& [name, tensor] : run.optimizer_in_use().state())
    course.optimizer.push_back(name + bytes_of(tensor));
  course.optimizer.push_back(to_line(remember(run.optimizer_in_use())));
  course.finished =
      fmt::format("{} {} {} {} {}", finished.epochs, finished.global_step, finished.data_digest,
                  finished.parameter_digest, finished.stop_reason);
}

Course uninterrupted(const Variant& variant) {
  at::manual_seed(5);
  const auto run = make(variant);
  Course course;
  note_end(*run, run->run(), course);
  return course;
}

void check_same(const Course& course, const Course& expected) {
  CHECK(course.told == expected.told);
  CHECK(course.weights == expected.weights);
  CHECK(course.optimizer == expected.optimizer);
  CHECK(course.finished == expected.finished);
}

fs::path last_of(const FakeRun& run) {
  return fs::canonical(run.folder.path() / "checkpoints/last");
}

/// Runs until `stops` asks for it, then goes on in a new process' place.
Course interrupted(const Variant& variant, const std::function<void(FakeRun&)>& stops) {
  at::manual_seed(5);
  const auto first = make(variant);
  stops(*first);
  const events::Finished ended = first->run();
  REQUIRE(ended.stop_reason == "signal");
  REQUIRE(first->saved_the_end);
  Course course;
  note(*first, course);
  at::manual_seed(77);
  const auto second = make(variant);
  second->resume = last_of(*first);
  note_end(*second, second->run(), course);
  return course;
}

/// A copy of the checkpoint with other plain values.
fs::path altered(const fs::path& checkpoint, const fs::path& folder,
                 const std::function<void(Json&)>& change) {
  checkpoint::Manifest manifest = checkpoint::read_manifest(checkpoint);
  const container::File file(checkpoint::Store::part(checkpoint, 0));
  Json meta = file.meta();
  change(meta["training"]);
  checkpoint::Store store(folder);
  const fs::path copy = store.begin(manifest.epoch, manifest.global_step);
  const fs::path part = checkpoint::Store::part(copy, 0);
  container::write(part, file.entries(), meta);
  manifest.parts[0].bytes = fs::file_size(part);
  manifest.parts[0].checksum = container::stored_checksum(part);
  store.commit(copy, manifest);
  return copy;
}

std::function<void(FakeRun&)> after_step(std::int64_t step) {
  return [step](FakeRun& run) {
    run.on_event = [step, &run](const events::Event& event) {
      const auto* logged = std::get_if<events::StepLogged>(&event);
      if (logged != nullptr && logged->global_step == step) run.stop_signal = 15;
    };
  };
}

/// In the second batch of a validation.
std::function<void(FakeRun&)> in_validation(int number) {
  return [number](FakeRun& run) {
    auto calls = std::make_shared<int>(0);
    run.loss.after = [number, calls, &run](const at::Tensor& loss, int) {
      if (run.model.mode == stage::RunMode::evaluate && ++*calls == 2 * number)
        run.stop_signal = 15;
      return loss;
    };
  };
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {},
      {.optimizer = "adamw",
       .optimizer_options = "{lr: 0.05}",
       .scheduler = "cosine_annealing_lr",
       .dropout = 0.3},
      {.optimizer = "sgd",
       .optimizer_options = "{lr: 0.3, momentum: 0.9, dampening: 0.1}",
       .scheduler = "reduce_lr_on_plateau",
       .scheduler_options = "{patience: 0, threshold: 0.5}",
       .ema = true},
      {.optimizer = "sgd",
       .optimizer_options = "{lr: 0.05, momentum: 0.9}",
       .scheduler = "one_cycle_lr",
       .scheduler_options = "{cycle_momentum: true}",
       .accumulate = 2},
      {.optimizer = "rmsprop", .optimizer_options = "{lr: 0.01}"},
      {.optimizer = "adam",
       .optimizer_options = "{lr: 0.3}",
       .accumulate = 4,
       .stops_early = true,
       .dropout = 0.5}};
  return all;
}

}  // namespace

TEST_CASE("a run that was stopped after any step goes on to the bits of an uninterrupted one") {
  for (const Variant& variant : variants()) {
    const Course expected = uninterrupted(variant);
    const std::int64_t steps = (6 + variant.accumulate - 1) / variant.accumulate;
    for (const std::int64_t step : {std::int64_t{1}, steps - 1, steps, steps + 1, 2 * steps}) {
      INFO(variant.optimizer << " with " << variant.scheduler << " stopped after step " << step);
      check_same(interrupted(variant, after_step(step)), expected);
    }
  }
}

TEST_CASE("a run that was stopped in a validation begins that validation again") {
  for (const Variant& variant : variants()) {
    INFO(variant.optimizer << " with " << variant.scheduler);
    check_same(interrupted(variant, in_validation(1)), uninterrupted(variant));
  }
}

TEST_CASE("a run goes on from each of its checkpoints") {
  Variant variant = variants()[1];
  const Course expected = uninterrupted(variant);
  at::manual_seed(5);
  const auto first = make(variant);
  first->options.saving->every_n_steps = 4;
  first->options.saving->top_k = -1;
  first->run();
  const checkpoint::Store store(first->folder.path() / "checkpoints");
  const auto all = store.list();
  CHECK(all.size() == 4 + 6);  // at the ends of epochs, and after steps 4, 8, ... 24
  for (const checkpoint::Found& found : all) {
    INFO(found.name);
    REQUIRE(found.manifest.has_value());
    const auto second = make(variant);
    second->resume = found.path;
    Course course;
    note_end(*second, second->run(), course);
    CHECK(course.weights == expected.weights);
    CHECK(course.optimizer == expected.optimizer);
    CHECK(course.finished == expected.finished);
  }
}

TEST_CASE("a run that came to its end goes on with more epochs, and else ends at once") {
  Variant variant;
  const auto whole = make(variant);
  const events::Finished expected = whole->run();
  const auto first = make(variant);
  first->options.max_epochs = 2;
  CHECK(first->run().epochs == 2);
  CHECK(first->saved_the_end);
  const auto again = make(variant);
  again->options.max_epochs = 2;
  again->resume = last_of(*first);
  CHECK(again->run().global_step == 12);
  CHECK(again->all<events::StepLogged>().empty());
  const auto more = make(variant);
  more->resume = last_of(*first);
  const events::Finished finished = more->run();
  CHECK(finished.epochs == 4);
  CHECK(finished.parameter_digest == expected.parameter_digest);
  CHECK(finished.data_digest == expected.data_digest);
}

TEST_CASE("an epoch that max_steps cut short goes on where a longer run resumes it") {
  for (const Variant& variant : variants()) {
    INFO(variant.optimizer << " with " << variant.scheduler);
    const Course expected = uninterrupted(variant);
    const std::int64_t steps = (6 + variant.accumulate - 1) / variant.accumulate;
    at::manual_seed(5);
    const auto first = make(variant);
    first->options.max_steps = steps + 1;
    const events::Finished cut = first->run();
    if (!variant.stops_early) CHECK(cut.stop_reason == "max_steps");
    CHECK(cut.epochs == 2);
    REQUIRE(first->saved_the_end);
    CHECK(first->all<events::EpochEnded>().size() == 2);
    const auto again = make(variant);
    again->options.max_steps = steps + 1;
    again->resume = last_of(*first);
    const events::Finished same = again->run();
    CHECK(same.stop_reason == cut.stop_reason);
    CHECK(same.parameter_digest == cut.parameter_digest);
    CHECK(again->all<events::StepLogged>().empty());
    CHECK(again->saved_the_end);
    const auto longer = make(variant);
    longer->resume = last_of(*first);
    Course course;
    note_end(*longer, longer->run(), course);
    CHECK(course.weights == expected.weights);
    CHECK(course.optimizer == expected.optimizer);
    CHECK(course.finished == expected.finished);
  }
}

TEST_CASE("a checkpoint of an epoch that was cut short is ranked by how the epoch was judged") {
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

TEST_CASE("all starts of a run share its max_time") {
  const auto timed = [](double seconds) {
    auto run = make({});
    const auto clock = std::make_shared<ManualClock>();
    run->clock = clock;
    run->options.max_time_s = seconds;
    run->loss.after = [clock](const at::Tensor& loss, int) {
      clock->advance(1);
      return loss;
    };
    return run;
  };
  const auto first = timed(9.5);
  const events::Finished cut = first->run();
  REQUIRE(cut.stop_reason == "max_time");
  REQUIRE(first->saved_the_end);
  const auto again = timed(9.5);
  again->resume = last_of(*first);
  const events::Finished same = again->run();
  CHECK(same.stop_reason == "max_time");
  CHECK(same.global_step == cut.global_step);
  const auto longer = timed(12.5);
  longer->resume = last_of(*first);
  const events::Finished more = longer->run();
  CHECK(more.stop_reason == "max_time");
  CHECK(more.global_step > cut.global_step);
  CHECK(more.global_step <= cut.global_step + 4);
}

TEST_CASE("damaged samples that a run met before it was stopped count in the one that goes on") {
  const auto first = make_damaged({3, 11});
  first->options.max_epochs = 1;
  first->run();
  CHECK(first->all<events::Warning>().size() == 2);
  const auto same = make_damaged({3, 11});
  same->resume = last_of(*first);
  CHECK(same->run().epochs == 2);
  CHECK(same->all<events::Warning>().empty());  // they were told
  const auto more = make_damaged({5, 11});
  more->resume = last_of(*first);
  CHECK(error_of(*more).kind() == ErrorKind::data);
}

TEST_CASE("a checkpoint tells where a run goes on from it") {
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

TEST_CASE("what the run has and the checkpoint has not is named, and the other way round") {
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

TEST_CASE("a checkpoint whose position cannot be is refused") {
  const auto first = make({});
  after_step(8)(*first);
  first->run();
  const fs::path good = last_of(*first);
  const auto go_on = [&](const std::function<void(Json&)>& change) {
    const auto run = make({});
    run->resume = altered(good, run->folder.path() / "from", change);
    return error_of(*run);
  };
  for (const std::int64_t rows : {-64, 23}) {
    const Error error = go_on([rows](Json& values) { values["rows_in_epoch"] = rows; });
    CHECK(error.kind() == ErrorKind::checkpoint);
    CHECK_THAT(error.what(), Contains(std::to_string(rows) + " samples"));
  }
  for (const char* key : {"epoch", "step_in_epoch", "global_step"}) {
    INFO(key);
    const Error error = go_on([key](Json& values) { values["position"][key] = 3; });
    CHECK(error.kind() == ErrorKind::checkpoint);
    CHECK_THAT(error.what(), Contains("the manifest tells"));
  }
}

TEST_CASE("checkpoints of weights only are written like others, and no run goes on from them") {
  const auto run = make({.ema = true});
  run->options.saving->weights_only = true;
  run->options.saving->every_n_steps = 4;
  run->options.saving->top_k = -1;
  after_step(9)(*run);
  CHECK(run->run().stop_reason == "signal");
  CHECK_FALSE(run->saved_the_end);
  const auto found = checkpoint::Store(run->folder.path() / "checkpoints").list();
  REQUIRE(found.size() == 4);  // after steps 9, 8, 6 and 4
  for (const checkpoint::Found& one : found) {
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

TEST_CASE("a newer checkpoint than the one a run goes on from is named, and stays") {
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
