#include "data/image/blend_portable.hpp"
#include "data/image/blend_rows.hpp"

namespace trainctl::data {

const BlendKernels& portable_blend() {
  static constexpr BlendKernels kPortable{
      "portable",
      [](const std::uint8_t* from, std::int64_t pixels, const Blend& blend, std::uint8_t* to) {
        saturate_row(from, pixels, blend, to);
      },
      [](const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to) {
        gray_row(from, pixels, to);
      },
      [](const std::uint8_t* from, std::int64_t pixels) { return sum_of_luma_row(from, pixels); },
      [](const RowsToSharpen& rows, std::int64_t count, float other, std::uint8_t* to) {
        sharpen_row(rows, count, other, to);
      }};
  return kPortable;
}

}  // namespace trainctl::data
