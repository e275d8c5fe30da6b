#include "base/error.hpp"
#include "support/catch.hpp"
#include "weights/tensor_names.hpp"

using namespace trainctl;
using weights::frozen_by;
using Indices = std::vector<std::size_t>;

namespace {

const std::vector<std::string> kNames{"conv1.weight",        "bn1.weight", "bn1.bias",
                                      "layer1.0.bn1.weight", "fc.weight",  "fc.bias"};

}  // namespace

TEST_CASE("freeze: a pattern matches parameters, or a layer with everything below it") {
  CHECK(frozen_by({"fc.bias"}, kNames) == Indices{5});
  CHECK(frozen_by({"bn1"}, kNames) == Indices{1, 2});
  CHECK(frozen_by({"layer?"}, kNames) == Indices{3});
  CHECK(frozen_by({"*bn1*"}, kNames) == Indices{1, 2, 3});
  CHECK(frozen_by({"*.bias", "bn1"}, kNames) == Indices{1, 2, 5});
  CHECK(frozen_by({"[cl]*"}, kNames) == Indices{0, 3});
  CHECK(frozen_by({}, kNames).empty());
  CHECK(frozen_by({"*"}, kNames).size() == 6);
}

TEST_CASE("freeze: a pattern without a match is an error with the closest name") {
  CHECK_THROWS_WITH(frozen_by({"fc", "layer2"}, kNames),
                    "freeze: the model has no parameter 'layer2'\nhint: use 'layer1'");
  CHECK_THROWS_WITH(frozen_by({"encoder"}, kNames), Contains("it has conv1.weight, bn1.weight"));
  CHECK_THROWS_WITH(frozen_by({""}, kNames), Contains("the model has no parameter ''"));
}
