#include "checkpoint/folder.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/verify.hpp"
#include "engine/engine_run.hpp"
#include "spec/experiment/job.hpp"
#include "support/catch.hpp"
#include "train/measure/auto_settings.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

using namespace trainctl;
using engine_run::Ended;
using engine_run::kSmall;
using engine_run::run_engine;

namespace {

constexpr const char* kConvolutions =
    "{ type: sequential, layers: [{ type: conv2d, out_channels: 8, kernel_size: 3 }, relu, "
    "{ type: conv2d, out_channels: 8, kernel_size: 3, stride: 2 }, relu, flatten, "
    "{ type: linear, out_features: 10 }] }";

/// Returns the small experiment with another model and further options of the trainer.
std::string config_of(const std::string& model, const std::string& trainer = "") {
  std::string text = kSmall;
  const std::string mlp = "{ type: mlp, hidden: [16] }";
  text.replace(text.find(mlp), mlp.size(), model);
  return text.insert(text.rfind(" }"), trainer.empty() ? "" : ", " + trainer);
}

/// Returns the choice that a run of one step reports.
train::LayoutChoice choice_for(const std::string& model, const std::string& trainer = "") {
  TempFolder folder;
  const std::string shortest = "limit_train_batches: 1, limit_val_batches: 1";
  const Ended ended =
      run_engine(folder, config_of(model, trainer.empty() ? shortest : shortest + ", " + trainer));
  REQUIRE(ended.code == 0);
  const auto* started = ended.find<events::RunStarted>();
  return {started->channels_last, started->channels_last_why};
}

std::string digest_of(const Ended& ended) {
  return ended.find<events::Finished>()->parameter_digest;
}

}  // namespace

TEST_CASE("channels_last auto: convolutional models are probed on a CPU, and others are not") {
  const train::LayoutChoice probed = choice_for(kConvolutions);
  CHECK_THAT(probed.why, StartsWith("probe: ") || StartsWith("undecided, because other processes"));
  const bool noisy = probed.why.find("too noisy") != std::string::npos;
  if (noisy || !probed.why.starts_with("probe: ")) CHECK_FALSE(probed.channels_last);
  const train::LayoutChoice dense = choice_for("{ type: mlp, hidden: [16] }");
  CHECK_FALSE(dense.channels_last);
  CHECK(dense.why == train::kNoConvolutions);
}

TEST_CASE("channels_last auto: deterministic=true disables the probe") {
  const train::LayoutChoice choice = choice_for(kConvolutions, "deterministic: true");
  CHECK_FALSE(choice.channels_last);
  CHECK(choice.why == "deterministic");
}

TEST_CASE("channels_last: a configured value is used without a probe") {
  CHECK(choice_for(kConvolutions, "channels_last: false").why == "configured");
  CHECK(choice_for(kConvolutions, "channels_last: true").channels_last);
  CHECK(choice_for("{ type: mlp, hidden: [16] }", "channels_last: true").channels_last);
}

TEST_CASE("channels_last auto: a run is bitwise equal to one with the same choice configured") {
  TempFolder chosen, configured;
  const Ended by_probe = run_engine(chosen, config_of(kConvolutions));
  REQUIRE(by_probe.code == 0);
  const bool last = by_probe.find<events::RunStarted>()->channels_last;
  const Ended by_hand = run_engine(
      configured, config_of(kConvolutions, last ? "channels_last: true" : "channels_last: false"));
  REQUIRE(by_hand.code == 0);
  CHECK(by_hand.find<events::RunStarted>()->channels_last_why == "configured");
  CHECK(digest_of(by_probe) == digest_of(by_hand));
}

TEST_CASE("channels_last auto: a resumed run uses the format recorded in its checkpoint") {
  TempFolder folder;
  REQUIRE(run_engine(folder, config_of(kConvolutions, "channels_last: true"), SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  CHECK(checkpoint::read_manifest(last).facts.at("channels_last") == "true");
  std::ofstream(folder / spec::kJobFile)
      << spec::dump_job({.kind = spec::JobKind::train, .resume = last});
  const Ended ended = run_engine(folder, config_of(kConvolutions));
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::RunStarted>()->channels_last);
  CHECK(ended.find<events::RunStarted>()->channels_last_why == "as at the start of the run");
  CHECK(ended.find<events::Resumed>()->why_not.empty());
  TempFolder whole;
  const Ended expected = run_engine(whole, config_of(kConvolutions, "channels_last: true"));
  CHECK(digest_of(ended) == digest_of(expected));
}

TEST_CASE("channels_last: a resumed run with another format is reported as not bitwise") {
  TempFolder folder;
  REQUIRE(run_engine(folder, config_of(kConvolutions, "channels_last: false"), SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  std::ofstream(folder / spec::kJobFile)
      << spec::dump_job({.kind = spec::JobKind::train, .resume = last});
  const Ended ended = run_engine(folder, config_of(kConvolutions, "channels_last: true"));
  REQUIRE(ended.code == 0);
  CHECK_THAT(ended.find<events::Resumed>()->why_not,
             Contains("trainer.channels_last was false and is now true"));
}
