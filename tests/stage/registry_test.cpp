#include "stage/registry.hpp"

#include "config/schema/describe.hpp"
#include "spec/options/metric.hpp"
#include "support/catch.hpp"

using namespace trainctl;

namespace {

struct FakeOptions {
  static constexpr auto kSummary = "A fake.";
  double value = 0;
  static void describe(config::Describe<FakeOptions>& options) {
    options.field("value", &FakeOptions::value, "Some value.");
  }
};

FakeOptions with_value(double value) {
  FakeOptions options;
  options.value = value;
  return options;
}

class FakeScheduler final : public stage::Scheduler {
 public:
  explicit FakeScheduler(double rate) : rate_(rate) {}
  [[nodiscard]] double lr(std::int64_t, std::int64_t) const override { return rate_; }
  void observe(std::int64_t, double) override {}
  [[nodiscard]] std::string monitor() const override { return {}; }

 private:
  double rate_;
};

stage::Catalog fakes() {
  stage::Catalog catalog;
  catalog.schedulers.add<FakeOptions>(
      "fake", [](const FakeOptions& options, const stage::SchedulerContext& context) {
        ENSURE(config, options.value >= 0, "value is {}", options.value);
        return std::make_unique<FakeScheduler>(options.value * context.initial_lr);
      });
  return catalog;
}

}  // namespace

TEST_CASE("Registry: a stage is built from its typed options and its context") {
  const auto stage = config::make_stage("scheduler", "fake", with_value(3));
  const auto built = fakes().schedulers.build(stage, {.initial_lr = 2});
  CHECK(built->lr(0, 0) == 6);
}

TEST_CASE("Registry: an error of a factory names the stage") {
  const auto stage = config::make_stage("scheduler", "fake", with_value(-1));
  try {
    (void)fakes().schedulers.build(stage, {});
    FAIL("the stage was built without an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK(std::string(error.what()) == "scheduler 'fake': value is -1");
  }
}

TEST_CASE("Registry: a stage that is not registered is an error with its name") {
  const auto stage = config::make_stage("scheduler", "real", FakeOptions{});
  CHECK_FALSE(fakes().schedulers.has("real"));
  CHECK_THROWS_WITH(fakes().schedulers.build(stage, {}),
                    "scheduler 'real' is not part of this build, which has: fake");
}

TEST_CASE("Registry: options of another type are an error") {
  const auto stage = config::make_stage("scheduler", "fake", spec::metric::Accuracy{});
  CHECK_THROWS_AS(fakes().schedulers.build(stage, {}), Error);
}
