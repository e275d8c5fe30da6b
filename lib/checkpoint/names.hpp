#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::checkpoint {

/// The file of a checkpoint's folder that makes it one.
inline constexpr const char* kManifestName = "manifest";

/// When a checkpoint was made, as its folder is named. The order is that of age: step, then epoch.
struct Moment {
  std::int64_t global_step = 0;
  std::int64_t epoch = 0;

  auto operator<=>(const Moment&) const = default;
};

/// "epoch=0003-step=000938".
std::string folder_name(const Moment& moment);
/// Nothing for a name that folder_name() does not give.
std::optional<Moment> parse_folder_name(std::string_view name);

/// "rank_0.part".
std::string part_name(int rank);

}  // namespace trainctl::checkpoint
