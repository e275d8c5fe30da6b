#pragma once

#include "checkpoint/store.hpp"
#include "spec/experiment/enums.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// By what checkpoints are compared: those of another monitor, or without a value, are no part of
/// it.
struct Ranking {
  std::string monitor;
  spec::Mode mode = spec::Mode::min;
};

/// The names of the best `most` (-1: of all that have a value), the best first; of equal values the
/// older one counts as better.
std::vector<std::string> best_names(const std::vector<checkpoint::Found>& found,
                                    const Ranking& ranking, std::int64_t most);

}  // namespace trainctl::train
