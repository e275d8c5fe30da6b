#include "base/error.hpp"
#include "study/sweep/sweep.hpp"
#include "support/catch.hpp"

#include <limits>
#include <string>

using namespace trainctl;
using namespace trainctl::study;
using report::Better;

namespace {

using Rungs = std::vector<std::int64_t>;

/// Returns "3>1" if setting 3 is promoted to rung 1.
std::string text_of(const std::optional<Halving::Promotion>& promotion) {
  return promotion ? fmt::format("{}>{}", promotion->setting, promotion->rung) : "none";
}

}  // namespace

TEST_CASE("rungs_of: rungs grow by eta up to the whole run") {
  CHECK(rungs_of(1, 9, 3) == Rungs{1, 3, 9});
  CHECK(rungs_of(1, 10, 3) == Rungs{1, 3, 9, 10});
  CHECK(rungs_of(2, 5, 4) == Rungs{2, 5});
  CHECK(rungs_of(1, 2, 2) == Rungs{1, 2});
  CHECK_THROWS_WITH(rungs_of(9, 9, 3),
                    Contains("--min-epochs must be below trainer.max_epochs, got 9 and 9"));
  CHECK_THROWS_WITH(rungs_of(0, 9, 3), Contains("--min-epochs must be at least 1, got 0"));
  CHECK_THROWS_WITH(rungs_of(1, 9, 1), Contains("--eta must be at least 2, got 1"));
}

// Computed by hand, one run at a time, with eta 3 and the lowest loss best; the losses at rung 0
// are 5 4 6 1 2 3 9 8 7. Of the first three, setting 1 (loss 4) is promoted; of four, the best is 3
// (loss 1); of six, two may advance, and 4 (loss 2) is promoted; of nine, three may advance, and 5
// (loss 3) is promoted.
TEST_CASE("Halving: promotes nine settings in the order computed by hand") {
  Halving halving(3, 3, Better::lower);
  const std::vector<double> losses{5, 4, 6, 1, 2, 3, 9, 8, 7};
  std::string order;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    halving.report(0, i, losses[i]);
    while (const auto next = halving.next()) {
      order += text_of(next) + " ";
      // The settings keep their order at rung 1, and nothing follows rung 2.
      halving.report(next->rung, next->setting, losses[next->setting] / 2);
    }
  }
  // Rung 1 then has 1 (2), 3 (0.5), 4 (1), and its best, 3, is promoted once there are three. With
  // 5 there are four, of which still only one is promoted.
  CHECK(order == "1>1 3>1 4>1 3>2 5>1 ");
}

TEST_CASE("Halving: a started setting is not promoted again, in any order of reports") {
  Halving halving(2, 2, Better::higher);
  halving.report(0, 0, 0.9);
  halving.report(0, 1, 0.8);
  CHECK(text_of(halving.next()) == "0>1");
  halving.begin(1, 0);
  CHECK(text_of(halving.next()) == "none");
  halving.report(1, 0, 0.95);
  CHECK(text_of(halving.next()) == "none");
}

TEST_CASE("Halving: a failed setting ranks last and is never promoted") {
  Halving halving(2, 2, Better::lower);
  halving.report(0, 0, std::nullopt);
  halving.report(0, 1, std::numeric_limits<double>::quiet_NaN());
  CHECK(text_of(halving.next()) == "none");
  halving.report(0, 2, 7.0);
  CHECK(text_of(halving.next()) == "2>1");
  halving.begin(1, 2);
  halving.report(0, 3, 8.0);
  CHECK(text_of(halving.next()) == "3>1");
}

TEST_CASE("Halving: of equal values the first setting is promoted") {
  Halving halving(2, 2, Better::lower);
  halving.report(0, 4, 1.0);
  halving.report(0, 2, 1.0);
  CHECK(text_of(halving.next()) == "2>1");
}

TEST_CASE("Halving: with a single rung nothing is promoted") {
  Halving halving(1, 3, Better::lower);
  for (std::size_t i = 0; i < 9; ++i) halving.report(0, i, 1.0);
  CHECK(text_of(halving.next()) == "none");
}
