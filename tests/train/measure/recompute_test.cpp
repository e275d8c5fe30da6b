#include "support/catch.hpp"
#include "train/measure/auto_settings.hpp"

#include <cstdint>

using namespace trainctl;
using train::choose_recompute;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

}  // namespace

TEST_CASE("activation_checkpointing=auto: blocks are recomputed only if activations do not fit") {
  const auto wide = choose_recompute({.activations = 4 * kGiB, .rest = kGiB, .free = 8 * kGiB});
  CHECK_FALSE(wide.recomputes);
  CHECK(wide.why ==
        "activations need about 4.0 GiB plus a margin of 15 %, and 7.0 GiB are free, so they are "
        "kept in memory");
  const auto narrow = choose_recompute({.activations = 9 * kGiB, .rest = kGiB, .free = 7 * kGiB});
  CHECK(narrow.recomputes);
  CHECK(narrow.why ==
        "activations need about 9.0 GiB plus a margin of 15 %, and 6.0 GiB are free, so blocks "
        "are recomputed");
}

TEST_CASE("activation_checkpointing=auto: activations need a margin of 15 %") {
  CHECK(choose_recompute({.activations = 100, .rest = 0, .free = 100}).recomputes);
  CHECK(choose_recompute({.activations = 100, .rest = 0, .free = 114}).recomputes);
  CHECK_FALSE(choose_recompute({.activations = 100, .rest = 0, .free = 116}).recomputes);
}

TEST_CASE(
    "activation_checkpointing=auto: no memory is free for activations if the weights do not fit") {
  const auto choice = choose_recompute({.activations = 1, .rest = 3 * kGiB, .free = kGiB});
  CHECK(choice.recomputes);
  CHECK_THAT(choice.why, Contains("1 B plus a margin of 15 %, and 0 B are free"));
  CHECK_FALSE(choose_recompute({.activations = 0, .rest = 2, .free = 1}).recomputes);
}
