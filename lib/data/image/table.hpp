#pragma once

#include "data/image/image.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace trainctl::data {

/// What becomes of each value of a byte.
using Table = std::array<std::uint8_t, 256>;

/// A table whose entries are `value_of(0)` ... `value_of(255)`.
template <class Function>
Table make_table(Function&& value_of) {
  Table table;
  for (int value = 0; value < 256; ++value) {
    table[static_cast<std::size_t>(value)] = static_cast<std::uint8_t>(value_of(value));
  }
  return table;
}

/// Looks every byte up; works in place.
void apply_table(const ImageView& input, const Table& table, ImageTarget& output);
/// The same with a table for each channel.
void apply_tables(const ImageView& input, std::span<const Table> tables, ImageTarget& output);

}  // namespace trainctl::data
