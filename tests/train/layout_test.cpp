#include "train/layout.hpp"

#include "support/catch.hpp"

using namespace trainctl;
using spec::Precision;
using train::choose_layout;

namespace {

/// On a GPU in 16 bits.
train::LayoutChoice choice_of(std::int64_t flops, std::int64_t convolution_flops) {
  return choose_layout({.flops = flops,
                        .convolution_flops = convolution_flops,
                        .on_cpu = false,
                        .precision = Precision::bf16_mixed});
}

}  // namespace

TEST_CASE("channels_last=auto: on where two thirds of the operations are convolutions of images") {
  CHECK(choice_of(300, 200).channels_last);
  CHECK_FALSE(choice_of(300, 199).channels_last);
  CHECK(choice_of(100, 97).why == "97 % of the operations are convolutions of images");
  CHECK(choice_of(100, 5).why ==
        "5 % of the operations are convolutions of images, less than two thirds");
}

TEST_CASE("channels_last=auto: off for a model without convolutions, and without operations") {
  CHECK_FALSE(choice_of(100, 0).channels_last);
  CHECK_THAT(choice_of(0, 0).why, Contains("no convolutions"));
}

TEST_CASE("channels_last=auto: on a GPU only in 16 bits, and on a CPU never") {
  const auto choice = [](bool on_cpu, Precision precision) {
    return choose_layout(
        {.flops = 1, .convolution_flops = 1, .on_cpu = on_cpu, .precision = precision});
  };
  CHECK_FALSE(choice(false, Precision::full).channels_last);
  CHECK_THAT(choice(false, Precision::full).why, Contains("only in 16 bits"));
  CHECK(choice(false, Precision::fp16_mixed).channels_last);
  CHECK_FALSE(choice(true, Precision::bf16_mixed).channels_last);
  CHECK_THAT(choice(true, Precision::full).why, Contains("tune"));
}
