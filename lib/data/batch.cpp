#include "data/batch.hpp"

namespace trainctl::data {

std::size_t Field::bytes() const {
  std::size_t count = size_of(dtype);
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

}  // namespace trainctl::data
