#include "train/state/checkpointer.hpp"

#include "checkpoint/verify.hpp"
#include "device/fake_events.hpp"
#include "support/noted_communicator.hpp"
#include "support/rank_group.hpp"
#include "train/hand_over.hpp"

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

namespace fs = std::filesystem;
using checkpoint::Link;
using train::CheckpointSaver;

/// Advances on every reading.
class SteppingClock final : public Clock {
 public:
  [[nodiscard]] double now() const override { return now_ += 0.001; }
  void advance(double seconds) { now_ += seconds; }

 private:
  mutable double now_ = 0;
};

/// A saver with artificial state, whose only tensor holds the step.
struct Saving {
  FakeRun run;
  train::Options options;
  std::shared_ptr<SteppingClock> clock = std::make_shared<SteppingClock>();
  train::Session session = set_up();
  std::unique_ptr<CheckpointSaver> saver;
  at::Tensor weight = torch::zeros({1000});

  explicit Saving(train::Saving with = {}) {
    options.monitor = "val/loss";
    options.saving = with;
    saver = std::make_unique<CheckpointSaver>(session, options);
  }

  [[nodiscard]] fs::path folder() const { return run.folder.path() / "checkpoints"; }
  [[nodiscard]] checkpoint::Store store() const { return checkpoint::Store(folder()); }

  void save(std::int64_t step, std::optional<double> value = {}) {
    weight.fill_(static_cast<float>(step));
    saver->take({{"model/weight", weight}}, {{"training", Json::object()}});
    saver->write({.moment = {step, 0}, .reason = "every_n_steps", .value = value});
  }
  void save_and_settle(std::int64_t step, std::optional<double> value = {}) {
    save(step, value);
    saver->settle();
  }
  /// Makes the creation of the checkpoint's folder fail.
  void block(std::int64_t step) const {
    fs::create_directories(folder());
    std::ofstream(folder() / checkpoint::folder_name({step, 0})) << "in the way";
  }
  [[nodiscard]] std::vector<std::int64_t> kept() const {
    std::vector<std::int64_t> steps;
    for (const checkpoint::StoredCheckpoint& found : store().list())
      steps.push_back(found.moment.global_step);
    return steps;
  }
  [[nodiscard]] std::int64_t pointed(Link link) const {
    const auto path = store().pointed(link);
    return path ? checkpoint::parse_folder_name(path->filename().string())->global_step : -1;
  }

 private:
  train::Session set_up() {
    run.clock = clock;
    return session_of(run);
  }
};

using Steps = std::vector<std::int64_t>;

float saved_value(const fs::path& checkpoint) {
  const container::File file(checkpoint::Store::part(checkpoint, 0));
  return *reinterpret_cast<const float*>(file.find("model/weight")->bytes.data());
}

}  // namespace

TEST_CASE(
    "CheckpointSaver: a save is committed, verified and reported, and the links point to it") {
  Saving saving;
  saving.save_and_settle(3, 0.5);
  CHECK(saving.saver->has({3, 0}));
  CHECK_FALSE(saving.saver->has({4, 0}));
  const auto reported = saving.run.all<events::CheckpointSaved>();
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].path == "checkpoints/" + checkpoint::folder_name({3, 0}));
  CHECK(reported[0].verified);
  CHECK(reported[0].exposed_s > 0);
  CHECK(saving.pointed(Link::last) == 3);
  CHECK(saving.pointed(Link::best) == 3);
  CHECK(saving.store().list()[0].manifest->monitor == "val/loss");
}

TEST_CASE("CheckpointSaver: a save is committed after all earlier events are stored") {
  Saving saving;
  saving.run.heartbeat.num_written = 3;
  saving.run.heartbeat.num_recorded = 2;
  saving.save(3);
  saving.run.heartbeat.num_written = 9;  // after the save
  const fs::path part =
      checkpoint::Store::part(saving.folder() / checkpoint::folder_name({3, 0}), 0);
  while (!fs::exists(part)) std::this_thread::yield();
  CHECK(saving.pointed(Link::last) == -1);
  saving.run.heartbeat.num_recorded = 3;
  saving.saver->settle();
  CHECK(saving.pointed(Link::last) == 3);
}

TEST_CASE("CheckpointSaver: weights that change after the copy do not change the file") {
  Saving saving;
  saving.save(3);
  saving.weight.fill_(77);
  saving.saver->settle();
  CHECK(saved_value(*saving.store().pointed(Link::last)) == 3);
}

TEST_CASE("CheckpointSaver: a save waits for the one that is being written") {
  Saving saving;
  saving.save(1);
  for (std::int64_t step = 2; step < 6; ++step) {
    saving.save(step);
    CHECK(saving.run.all<events::CheckpointSaved>().size() == static_cast<std::size_t>(step - 1));
  }
  saving.saver->settle();
  CHECK(saved_value(*saving.store().pointed(Link::last)) == 5);
}

TEST_CASE("CheckpointSaver: a synchronous save is committed when it returns") {
  Saving saving(train::Saving{.asynchronous = false});
  saving.save(4);
  CHECK(saving.saver->has({4, 0}));
  CHECK(saving.run.all<events::CheckpointSaved>().size() == 1);
}

TEST_CASE("CheckpointSaver: a failed save is a warning, and the previous checkpoint is kept") {
  Saving saving;
  saving.save_and_settle(1);
  saving.block(2);
  saving.save_and_settle(2);
  CHECK_FALSE(saving.saver->has({2, 0}));
  const auto warnings = saving.run.all<events::Warning>();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].message, Contains("step 2") && Contains(checkpoint::folder_name({1, 0})));
  CHECK(saving.pointed(Link::last) == 1);
  saving.save_and_settle(3);
  CHECK(saving.saver->has({3, 0}));
  CHECK(saving.pointed(Link::last) == 3);
}

TEST_CASE("CheckpointSaver: at least three failures in a row over five minutes end the run") {
  Saving saving;
  saving.save_and_settle(1);
  for (const std::int64_t step : {2, 3, 5, 6, 7, 8, 9}) saving.block(step);
  saving.save_and_settle(2);
  saving.clock->advance(400);
  saving.save_and_settle(3);  // two
  saving.save_and_settle(4);
  for (const std::int64_t step : {5, 6, 7, 8}) {  // four within a minute
    saving.clock->advance(20);
    saving.save_and_settle(step);
  }
  saving.clock->advance(240);
  saving.save(9);
  try {
    saving.saver->settle();
    FAIL("the run continued");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    CHECK_THAT(error.what(), Contains("5 consecutive saves failed"));
  }
  CHECK(saving.pointed(Link::last) == 4);
}

TEST_CASE(
    "CheckpointSaver: a failed save without an older checkpoint ends the run, except at its end") {
  Saving saving;
  saving.block(1);
  saving.save(1);
  CHECK_THROWS_WITH(saving.saver->settle(), Contains("no older checkpoint"));
  Saving at_end;
  at_end.saver->tolerate_failures();
  at_end.block(1);
  at_end.save_and_settle(1);
  CHECK_FALSE(at_end.saver->has({1, 0}));
  CHECK(at_end.run.all<events::Warning>().size() == 1);
}

TEST_CASE("CheckpointSaver: on a GPU, a state that diverged is refused once it is copied") {
  FakeDevice gpu;
  Saving saving;
  saving.session.make_event = [&gpu](at::Device) { return gpu.event(); };
  saving.saver = std::make_unique<CheckpointSaver>(saving.session, saving.options);
  REQUIRE(saving.saver->copies_late());
  const auto save = [&](std::int64_t step, float value) {
    saving.saver->take({{"model/fc1.weight", torch::full({3}, value)}},
                       {{"training", Json::object()}});
    saving.saver->write({.moment = {step, 0}, .reason = "every_n_steps"});
    gpu.finish_all();
    saving.saver->settle();
  };
  save(1, std::numeric_limits<float>::infinity());
  CHECK(saving.kept().empty());  // this is no failure, although there is no older checkpoint
  save(2, 2);
  save(3, std::nanf(""));
  CHECK_FALSE(saving.saver->has({3, 0}));
  CHECK(saving.kept() == Steps{2});
  const auto warnings = saving.run.all<events::Warning>();
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[1].message ==
        "the checkpoint of step 3 is not saved: 'fc1.weight' contains values that are not finite");
}

TEST_CASE("CheckpointSaver: keeps the best top_k and the last, and at least two") {
  Saving saving(train::Saving{.top_k = 2});
  const std::array values{0.9, 0.2, 0.5, 0.3, 0.8, 0.7};
  for (std::size_t i = 0; i < values.size(); ++i)
    saving.save_and_settle(static_cast<std::int64_t>(i) + 1, values.at(i));
  CHECK(saving.kept() == Steps{6, 4, 2});
  CHECK(saving.pointed(Link::best) == 2);
  Saving none(train::Saving{.top_k = 0});
  for (std::int64_t step = 1; step < 5; ++step) none.save_and_settle(step, 0.1);
  CHECK(none.kept() == Steps{4, 3});
  CHECK(none.pointed(Link::best) == -1);
  Saving all(train::Saving{.top_k = -1});
  for (std::int64_t step = 1; step < 5; ++step) all.save_and_settle(step);
  CHECK(all.kept() == Steps{4, 3, 2, 1});
}

TEST_CASE("CheckpointSaver: an unfinished checkpoint of an earlier run is removed at the start") {
  Saving saving;
  saving.save_and_settle(1);
  const fs::path left = saving.folder() / checkpoint::folder_name({2, 0});
  fs::create_directories(left);
  std::ofstream(left / "rank_0.part") << "half";
  saving.saver = std::make_unique<CheckpointSaver>(saving.session, saving.options);
  CHECK_FALSE(fs::exists(left));
  CHECK(saving.kept() == Steps{1});
}

TEST_CASE("CheckpointSaver: too little disk space is a warning or an error before the first step") {
  Saving saving;
  saving.saver->check_space(1000);
  CHECK(saving.run.events.empty());
  const std::uint64_t free = fs::space(saving.run.folder.path()).available;
  saving.saver->check_space(free / 2);
  CHECK(saving.run.all<events::Warning>().size() == 1);
  CHECK_THROWS_WITH(saving.saver->check_space(free * 2), Contains("save_weights_only"));
}

TEST_CASE("CheckpointSaver: two ranks write one checkpoint, and both know that it exists") {
  RankGroup group(2);
  TempFolder folder;
  std::array<bool, 2> known{};
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    FakeRun run({}, std::move(communicator));
    train::Session session = session_of(run);
    session.run_dir = folder.path();
    train::Options options;
    options.saving = train::Saving{};
    CheckpointSaver saver(session, options);
    for (const std::int64_t step : {1, 2, 3}) {
      const at::Tensor weight = torch::full({100}, static_cast<float>(10 * step + rank));
      saver.take({{"model/weight", weight}}, {{"training", Json::object()}});
      saver.write({.moment = {step, 0}, .reason = "every_n_steps"});
    }
    saver.settle();
    known[static_cast<std::size_t>(rank)] = saver.has({3, 0});
  });
  CHECK((known[0] && known[1]));
  const auto last = checkpoint::Store(folder.path() / "checkpoints").pointed(Link::last);
  REQUIRE(last.has_value());
  CHECK(checkpoint::verify(*last).parts.size() == 2);
  for (const int rank : {0, 1}) {
    const container::File file(checkpoint::Store::part(*last, rank));
    const auto* value = reinterpret_cast<const float*>(file.find("model/weight")->bytes.data());
    CHECK(*value == static_cast<float>(30 + rank));
  }
}

TEST_CASE(
    "CheckpointWriter: if the state of another rank diverged, rank 0 refuses the checkpoint") {
  const TempFolder folder;
  std::atomic<bool> canceled = false;
  const auto write = [&](int rank, const std::string& obstacle) {
    train::CheckpointWriter writer({.folder = folder.path() / "checkpoints", .place = {rank, 2}},
                                   canceled);
    train::WriteJob job{.meta = Json::object()};
    job.manifest.global_step = 3;
    job.manifest.world_size = 2;
    job.obstacle = [obstacle] { return obstacle; };
    return writer.run(job);
  };
  auto other = std::async(std::launch::async, [&] { return write(1, "it is not finite"); });
  const train::WriteOutcome first = write(0, "");
  const train::WriteOutcome second = other.get();
  CHECK_FALSE((first.committed || second.committed));
  CHECK((first.refused && second.refused));
  CHECK(first.failure == "the state of rank 1 diverged");
  CHECK(second.failure == "it is not finite");
}

TEST_CASE("CheckpointSaver: ranks that know of the end of a save do not exchange it again") {
  RankGroup group(2);
  TempFolder folder;
  std::array<std::vector<std::string>, 2> exchanges;
  std::array<std::vector<bool>, 2> known;
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> inner) {
    const auto at = static_cast<std::size_t>(rank);
    FakeRun run({}, std::make_unique<NotedCommunicator>(std::move(inner), exchanges.at(at)));
    train::Session session = session_of(run);
    session.run_dir = folder.path();
    train::Options options;
    options.saving = train::Saving{};
    CheckpointSaver saver(session, options);
    const auto save = [&](std::int64_t step) {
      saver.take({{"model/weight", torch::ones({3})}}, {{"training", Json::object()}});
      saver.write({.moment = {step, 0}, .reason = "every_n_steps"});
    };
    const auto agree = [&] {  // what StopConsensus does
      while (rank == 0 && saver.ended() / 2 < 1) saver.poll();
      const at::Tensor ended = torch::full({1}, rank == 0 ? saver.ended() : 0, torch::kInt);
      run.communicator->sum(ended, "a test");
      saver.agree(ended.item<int>());
    };
    save(1);
    agree();
    save(2);
    known.at(at).push_back(saver.has({1, 0}));
    saver.settle();
    known.at(at).push_back(saver.has({2, 0}));
    saver.settle();
    known.at(at).push_back(saver.has({2, 0}));
  });
  const std::vector<bool> expected{false, true, true};
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
    CHECK(known.at(rank) == expected);
    CHECK(exchanges.at(rank) == std::vector<std::string>{"a test", "end of a save"});
  }
}

TEST_CASE(
    "CheckpointWriter: a part is written when its bytes are copied, or the save is canceled") {
  const TempFolder folder;
  std::atomic<bool> canceled = false;
  std::atomic<bool> copied = false;
  train::CheckpointWriter writer({.folder = folder.path() / "checkpoints"}, canceled);
  std::vector<std::byte> bytes(4);
  std::atomic<int> polls = 0;
  train::WriteJob job{.entries = {{"model/weight", "F32", {1}, bytes}}, .meta = Json::object()};
  job.manifest.global_step = 3;
  job.manifest.world_size = 1;
  job.is_copied = [&] { return ++polls > 2 && copied; };
  auto written = std::async(std::launch::async, [&] { return writer.run(job); });
  while (polls < 3) std::this_thread::yield();
  SECTION("copied") {
    bytes[0] = std::byte{7};
    copied = true;
    REQUIRE(written.get().committed);
    const auto path = checkpoint::Store(folder.path() / "checkpoints").pointed(Link::last);
    const container::File file(checkpoint::Store::part(*path, 0));
    CHECK(file.find("model/weight")->bytes[0] == std::byte{7});
  }
  SECTION("canceled") {
    canceled = true;
    const train::WriteOutcome outcome = written.get();
    CHECK_FALSE(outcome.committed);
    CHECK_THAT(outcome.failure, Contains("canceled"));
  }
}
