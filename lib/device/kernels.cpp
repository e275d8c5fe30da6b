#include "device/kernels.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>

namespace trainctl::device {
namespace {

constexpr int kLanes = 32;

/// Reduces in the order of the kernel, for the same bits.
template <class T, class Add>
T reduce_lanes(std::array<T, kLanes>& parts, Add add) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane)
      parts[lane] = add(parts[lane], parts[lane + half]);
  }
  return parts[0];
}

/// Returns whether the code of one entry of CMAKE_CUDA_ARCHITECTURES runs on the GPU.
bool runs_on(const std::string& entry, int architecture) {
  const std::size_t dash = entry.find('-');
  const int built = parse_number<int>(entry.substr(0, dash)).value_or(0);
  const std::string_view code =
      dash == std::string::npos ? "" : std::string_view(entry).substr(dash);
  if (built == 0 || architecture < built) return false;
  const bool same_major = architecture / 10 == built / 10;
  return code == "-real" ? same_major : code == "-virtual" || code.empty();
}

}  // namespace

bool kernels_run_on(std::string_view architectures, int architecture) {
  return std::ranges::any_of(split(std::string(architectures), ' '), [&](const std::string& entry) {
    return runs_on(entry, architecture);
  });
}

void row_entropy_on_host(const RowEntropy& job) {
  std::array<RowSum, kLanes> parts{};
  std::array<float, kLanes> sums{};
  for (std::int64_t row = 0; row < job.rows; ++row) {
    for (int lane = 0; lane < kLanes; ++lane)
      parts[static_cast<std::size_t>(lane)] = lane_sum(job, row, lane, kLanes);
    const RowSum whole = reduce_lanes(parts, both);
    for (int lane = 0; lane < kLanes; ++lane)
      sums[static_cast<std::size_t>(lane)] = lane_gradients(job, row, whole, lane, kLanes);
    job.losses[row] =
        row_loss(job, row, whole, reduce_lanes(sums, [](float a, float b) { return a + b; }));
  }
}

}  // namespace trainctl::device
