#include "device/kernels.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <vector>

// Runs the code of the lanes one after another, and adds their parts in the order of the kernels.

namespace trainctl::device {
namespace {

template <class T>
using Lanes = std::array<T, kWarp>;

/// Computes the part of each lane and reduces them like a warp.
template <class Part, class Add>
auto reduce_lanes(Part part_of, Add add_parts) {
  Lanes<decltype(part_of(0))> parts{};
  for (std::size_t lane = 0; lane < parts.size(); ++lane)
    parts[lane] = part_of(static_cast<int>(lane));
  for (std::size_t half = parts.size() / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane)
      parts[lane] = add_parts(parts[lane], parts[lane + half]);
  }
  return parts[0];
}

float sum(float a, float b) { return a + b; }

template <class T, bool kProbabilities>
void entropy(const RowEntropy& job) {
  if (is_done(job)) return;
  for (std::int64_t row = 0; row < job.rows; ++row) {
    RowTarget target = row_target(job, row);
    if constexpr (kProbabilities) {
      target.total =
          reduce_lanes([&](int lane) { return lane_total<T>(job, row, lane, kWarp); }, sum);
    }
    RowStats stats{};
    if (job.losses == nullptr) {
      stats = {job.stats[2 * row], job.stats[2 * row + 1]};
    } else {
      stats = stats_of(
          reduce_lanes([&](int lane) { return lane_sum<T>(job, row, lane, kWarp); }, merge_sums));
    }
    float log_p = 0;
    if (reads_twice(job)) {
      log_p = reduce_lanes(
          [&](int lane) {
            return lane_gradients<T, kProbabilities>(job, row, target, stats, lane, kWarp);
          },
          sum);
    }
    if (job.losses == nullptr) continue;
    job.losses[row] = row_loss<T>(job, row, target, stats, log_p);
    if (job.stats == nullptr) continue;
    job.stats[2 * row] = stats.largest;
    job.stats[2 * row + 1] = stats.log_sum;
  }
}

/// Memory with the alignment of a kernel's shared memory.
class Scratch {
 public:
  explicit Scratch(std::int64_t count) : packs_(static_cast<std::size_t>(count / kQuad)) {}
  float* data() { return packs_.empty() ? nullptr : packs_[0].values; }

 private:
  std::vector<Quad> packs_;
};

template <class T>
void norm(const AddNorm& job) {
  Scratch scratch(job.width);
  float* values = scratch.data();
  for (std::int64_t row = 0; row < job.rows; ++row) {
    const float total =
        reduce_lanes([&](int lane) { return lane_add<T>(job, row, values, lane, kWarp); }, sum);
    const float mean = total / static_cast<float>(job.width);
    const float squares =
        reduce_lanes([&](int lane) { return lane_squares(job, values, mean, lane, kWarp); }, sum);
    const float inverse = inverse_deviation(job, squares);
    for (int lane = 0; lane < kWarp; ++lane)
      lane_normalize<T>(job, row, values, mean, inverse, lane, kWarp);
    job.stats[2 * row] = mean;
    job.stats[2 * row + 1] = inverse;
  }
}

template <class T>
void norm_backward(const AddNormBackward& job) {
  const std::int64_t parts = parts_of(job.rows);
  std::fill_n(job.weight_grad, job.width, 0.0F);
  std::fill_n(job.bias_grad, job.width, 0.0F);
  for (std::int64_t part = 0; part < parts; ++part) {
    float* columns = job.parts + part * 2 * job.width;
    std::fill_n(columns, 2 * job.width, 0.0F);
    for (std::int64_t row = part; row < job.rows; row += parts) {
      const NormSums sums =
          reduce_lanes([&](int lane) { return lane_norm_sums<T>(job, row, lane, kWarp); }, add);
      for (int lane = 0; lane < kWarp; ++lane)
        lane_norm_gradients<T>(job, row, sums, columns, lane, kWarp);
    }
    for (std::int64_t c = 0; c < job.width; ++c) {
      job.weight_grad[c] += columns[c];
      job.bias_grad[c] += columns[job.width + c];
    }
  }
}

template <bool kTanh, class T>
void gelu_pass(const BiasGelu& job) {
  constexpr int kCount = kPackOf<T>;
  for (std::int64_t column = 0; column < job.width; column += kCount) {
    if (job.gradient == nullptr) {
      gelu_columns<kTanh, T>(job, column, 0, 1);
    } else {
      const auto sums = gelu_gradients<kTanh, T>(job, column, 0, 1);
      std::copy_n(sums.values, kCount, job.bias_grad + column);
    }
  }
}

/// Divides the rows like the blocks of the kernel.
template <class T>
void moments(const BatchMoments& job) {
  constexpr int kCount = kPackOf<T>;
  const NormReluGrid grid = norm_relu_grid<T>(job);
  const std::int64_t lanes = grid.blocks * grid.rows;
  for (std::int64_t channel = 0; channel < job.channels; channel += kCount) {
    Moments all[kCount] = {};
    for (std::int64_t first = 0; first < lanes; first += grid.rows) {
      Moments block[kCount] = {};
      for (std::int64_t row = first; row < first + grid.rows; ++row) {
        const PackMoments<T> own = lane_moments<T>(job, channel, row, lanes);
        for (int i = 0; i < kCount; ++i) block[i] = merge_moments(block[i], moments_of(own, i));
      }
      for (int i = 0; i < kCount; ++i) all[i] = merge_moments(all[i], block[i]);
    }
    for (int i = 0; i < kCount; ++i) write_moments(job, channel + i, all[i]);
  }
}

template <bool kAdds, class T>
void norm_relu(const BatchNormRelu& job) {
  for (std::int64_t channel = 0; channel < job.channels; channel += kPackOf<T>)
    lane_norm_relu<kAdds, T>(job, channel, 0, 1);
}

template <class T>
void add_to(NormReluSums<T>& all, const NormReluSums<T>& part) {
  for (int i = 0; i < kPackOf<T>; ++i) {
    all.plain.values[i] += part.plain.values[i];
    all.scaled.values[i] += part.scaled.values[i];
  }
}

/// Divides the rows like the blocks of the kernel.
template <bool kAdds, class T>
void norm_relu_backward(const BatchNormReluBackward& job) {
  constexpr int kCount = kPackOf<T>;
  const NormReluGrid grid = norm_relu_grid<T>(job);
  const std::int64_t lanes = grid.blocks * grid.rows;
  for (std::int64_t channel = 0; channel < job.channels; channel += kCount) {
    NormReluSums<T> all{};
    for (std::int64_t first = 0; first < lanes; first += grid.rows) {
      NormReluSums<T> block{};
      for (std::int64_t row = first; row < first + grid.rows; ++row)
        add_to(block, lane_norm_relu_sums<kAdds, T>(job, channel, row, lanes));
      add_to(all, block);
    }
    std::copy_n(all.plain.values, kCount, job.bias_grad + channel);
    std::copy_n(all.scaled.values, kCount, job.weight_grad + channel);
    if (job.x_grad == nullptr) continue;
    for (std::int64_t first = 0; first < lanes; ++first)
      lane_norm_relu_gradients<kAdds, T>(job, channel, first, lanes);
  }
}

template <class Job, class Call>
void for_type(const Job& job, Call call) {
  switch (job.type) {
    case Element::float32: call(float{}); break;
    case Element::bfloat16: call(c10::BFloat16{}); break;
    case Element::float16: call(c10::Half{}); break;
  }
}

/// Returns whether the code of one entry of CMAKE_CUDA_ARCHITECTURES runs on the GPU.
bool runs_on(std::string_view entry, int architecture) {
  const std::size_t dash = std::min(entry.find('-'), entry.size());
  const std::string_view code = entry.substr(dash);
  std::string_view number = entry.substr(0, dash);
  const bool is_specific = number.ends_with('a');
  const bool is_family = number.ends_with('f');
  if (is_specific || is_family) number.remove_suffix(1);
  const int built = parse_number<int>(number).value_or(0);
  if (built == 0 || architecture < built) return false;
  if (is_specific) return architecture == built;
  if (is_family || code == "-real") return architecture / 10 == built / 10;
  return code == "-virtual" || code.empty();
}

}  // namespace

bool kernels_run_on(std::string_view architectures, int architecture) {
  return std::ranges::any_of(split(std::string(architectures), ' '), [&](const std::string& entry) {
    return runs_on(entry, architecture);
  });
}

void row_entropy_on_host(const RowEntropy& job) {
  for_type(job, [&](auto type) {
    if (job.probabilities == nullptr) {
      entropy<decltype(type), false>(job);
    } else {
      entropy<decltype(type), true>(job);
    }
  });
}

void add_norm_on_host(const AddNorm& job) {
  for_type(job, [&](auto type) { norm<decltype(type)>(job); });
}

void add_norm_backward_on_host(const AddNormBackward& job) {
  for_type(job, [&](auto type) { norm_backward<decltype(type)>(job); });
}

void bias_gelu_on_host(const BiasGelu& job) {
  for_type(job, [&](auto type) {
    if (job.tanh) {
      gelu_pass<true, decltype(type)>(job);
    } else {
      gelu_pass<false, decltype(type)>(job);
    }
  });
}

void batch_moments_on_host(const BatchMoments& job) {
  for_type(job, [&](auto type) { moments<decltype(type)>(job); });
}

void batch_norm_relu_on_host(const BatchNormRelu& job) {
  for_type(job, [&](auto type) {
    if (job.residual == nullptr) {
      norm_relu<false, decltype(type)>(job);
    } else {
      norm_relu<true, decltype(type)>(job);
    }
  });
}

void batch_norm_relu_backward_on_host(const BatchNormReluBackward& job) {
  for_type(job, [&](auto type) {
    if (job.residual_grad == nullptr) {
      norm_relu_backward<false, decltype(type)>(job);
    } else {
      norm_relu_backward<true, decltype(type)>(job);
    }
  });
}

void average_weights_on_host(const AverageWeights& job) {
  for (std::int64_t i = 0; i < job.count; ++i) {
    for (int lane = 0; lane < kWarp; ++lane) lane_average(job.chunks[i], job.share, lane, kWarp);
  }
}

}  // namespace trainctl::device
