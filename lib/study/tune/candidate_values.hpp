#pragma once

#include "study/tune/candidates.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

// The keys that tune knows, and what each of them offers where it may help.

namespace trainctl::study::tune_keys {

inline constexpr const char* kWorkers = "loader.num_workers";
inline constexpr const char* kCache = "dataset.cache.mode";
inline constexpr const char* kPrefetch = "loader.prefetch_factor";
inline constexpr const char* kPin = "loader.pin_memory";
inline constexpr const char* kThreads = "trainer.num_threads";
inline constexpr const char* kLayout = "trainer.channels_last";
inline constexpr const char* kGraphs = "trainer.cuda_graphs";
inline constexpr const char* kPrecision = "trainer.precision";
inline constexpr const char* kAnomaly = "trainer.detect_anomaly";
inline constexpr const char* kBucket = "distributed.bucket_cap_mb";
inline constexpr const char* kBatch = "loader.batch_size";
inline constexpr const char* kValidation = "trainer.check_val_every_n_epoch";
inline constexpr const char* kSaving = "checkpoint.every_n_epochs";

/// Whether the name is one of them.
template <std::size_t N>
bool holds(const std::array<const char*, N>& names, std::string_view name) {
  return std::ranges::find(names, name, [](const char* each) { return std::string_view(each); }) !=
         names.end();
}

/// The steps wait for batches.
bool is_starved(const TuneSituation& now);

/// What one key offers.
struct Offer {
  std::string before = {};
  std::vector<std::string> values = {};
  std::string reason = {};
  std::string none = {};  // why there are no values
};

/// Of one of the keys above.
Offer offer_of(std::string_view key, const TuneSituation& now);

}  // namespace trainctl::study::tune_keys
