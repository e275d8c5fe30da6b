#include "spec/experiment/value_types.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"

using trainctl::spec::Limit;

namespace {

Limit limit_of(const std::string& text) {
  return load_valid({"trainer.limit_train_batches=" + text}).experiment.trainer.limit_train_batches;
}

}  // namespace

TEST_CASE("limit: an integer is a number of batches, a decimal number a fraction", "[spec]") {
  CHECK(limit_of("1") == Limit{.batches = 1});
  CHECK(limit_of("1.0") == Limit{.fraction = 1});
  CHECK(limit_of("0.25") == Limit{.fraction = 0.25});
  CHECK(limit_of("1e-2") == Limit{.fraction = 0.01});
}

TEST_CASE("limit: is at most the epoch, and a positive fraction is at least one batch", "[spec]") {
  CHECK(Limit{}.of(100) == 100);
  CHECK(Limit{.batches = 7}.of(100) == 7);
  CHECK(Limit{.batches = 700}.of(100) == 100);
  CHECK(Limit{.fraction = 0.25}.of(100) == 25);
  CHECK(Limit{.fraction = 0.001}.of(100) == 1);
  CHECK(Limit{.fraction = 0}.of(100) == 0);
  CHECK(Limit{.fraction = 0.5}.of(0) == 0);
}

TEST_CASE("limit: the error for a fraction above 1.0 suggests a number of batches", "[spec]") {
  CHECK_THAT(problems_of({"trainer.limit_train_batches=1.5"}),
             Contains("fraction up to 1.0, got '1.5'") && Contains("write 2"));
  CHECK_THAT(problems_of({"trainer.limit_train_batches=0"}),
             Contains("'limit_train_batches' must be above 0"));
  CHECK_THAT(problems_of({"trainer.limit_train_batches=0.0"}),
             Contains("'limit_train_batches' must be above 0"));
  CHECK_THAT(problems_of({"trainer.limit_train_batches=some"}),
             Contains("'limit_train_batches' must be"));
}
