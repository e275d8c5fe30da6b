#include "support/catch.hpp"
#include "train/state/checkpointer.hpp"

#include <limits>

using namespace trainctl;

namespace {

checkpoint::StoredCheckpoint found(std::int64_t step, std::optional<double> value,
                                   const std::string& monitor = "val/loss") {
  checkpoint::StoredCheckpoint one;
  one.name = std::to_string(step);
  one.moment = {step, 0};
  one.committed = true;
  one.manifest.emplace();
  one.manifest->value = value;
  one.manifest->monitor = monitor;
  return one;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("best_names: the best checkpoint comes first, and the older of two equal ones") {
  std::vector<checkpoint::StoredCheckpoint> all{found(5, 0.3), found(4, 0.1), found(3, 0.2),
                                                found(2, 0.1)};
  CHECK(train::best_names(all, {"val/loss", spec::Mode::min}, -1) == Names{"2", "4", "3", "5"});
  CHECK(train::best_names(all, {"val/loss", spec::Mode::max}, 2) == Names{"5", "3"});
  CHECK(train::best_names(all, {"val/loss", spec::Mode::min}, 0).empty());
}

TEST_CASE(
    "best_names: checkpoints without a value or manifest, or with another monitor, are excluded") {
  std::vector<checkpoint::StoredCheckpoint> all{found(3, {}), found(2, 0.5),
                                                found(1, 0.1, "val/accuracy")};
  all.emplace_back().name = "damaged";
  CHECK(train::best_names(all, {"val/loss", spec::Mode::min}, -1) == Names{"2"});
}
