#include "data/transform/chain.hpp"

namespace trainctl::data {

std::array<std::vector<std::uint8_t>, 2>& chain_buffers() {
  thread_local std::array<std::vector<std::uint8_t>, 2> buffers;
  return buffers;
}

}  // namespace trainctl::data
