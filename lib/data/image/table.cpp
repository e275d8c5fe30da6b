#include "data/image/table.hpp"

#include "base/error.hpp"

namespace trainctl::data {

void apply_table(const ImageView& input, const Table& table, ImageTarget& output) {
  output.resize(input.shape);
  const auto bytes = static_cast<std::int64_t>(input.row_bytes());
  for (std::int64_t y = 0; y < input.shape.height; ++y) {
    const std::uint8_t* from = input.row(y);
    std::uint8_t* to = output.row(y);
    for (std::int64_t i = 0; i < bytes; ++i) to[i] = table[from[i]];
  }
}

void apply_tables(const ImageView& input, std::span<const Table> tables, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  ASSERT(std::ssize(tables) == channels);
  output.resize(input.shape);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* from = input.row(y);
    std::uint8_t* to = output.row(y);
    for (std::int64_t x = 0; x < width; ++x) {
      for (const Table& table : tables) *to++ = table[*from++];
    }
  }
}

}  // namespace trainctl::data
