#include "data/core/batch.hpp"

#include "base/hash.hpp"
#include "data/loader/loader.hpp"

#include <algorithm>

namespace trainctl::data {

std::size_t Field::bytes() const {
  std::size_t count = size_of(dtype);
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::size_t find_field(const Layout& layout, std::string_view name) {
  const auto found = std::find_if(layout.begin(), layout.end(),
                                  [&](const Field& field) { return field.name == name; });
  return static_cast<std::size_t>(found - layout.begin());
}

std::uint64_t digest(const Batch& batch, const Layout& layout) {
  std::uint64_t sum = 0;
  for (std::int64_t row = 0; row < batch.valid; ++row) {
    auto hash = static_cast<std::uint64_t>(batch.position + row * batch.position_step);
    for (std::size_t field = 0; field < layout.size(); ++field) {
      const std::size_t bytes = layout[field].bytes();
      hash = hash_bytes(batch.fields[field].subspan(static_cast<std::size_t>(row) * bytes, bytes),
                        hash);
    }
    sum += hash;
  }
  return sum;
}

}  // namespace trainctl::data
