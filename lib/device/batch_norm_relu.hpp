#pragma once

#include "device/row_math.hpp"

// The CUDA compiler reads this file, too: C++17 and plain types only.

namespace trainctl::device {

/// Images in channels_last. A row is a pixel. The bytes of its channels are a multiple of
/// kPackBytes, and all pointers are aligned to kPackBytes.
struct PixelRows {
  const void* x = nullptr;          // [rows, channels]
  Element type = Element::float32;  // of x, and of all tensors of this shape
  std::int64_t rows = 0;
  std::int64_t channels = 0;
};

/// Computes mean and biased variance of each channel, and updates the running averages like
/// torch.nn.BatchNorm2d, with the unbiased variance.
struct BatchMoments : PixelRows {
  float* parts = nullptr;         // [parts_of(job), 3, channels]: the Moments of each block
  float* mean = nullptr;          // [channels]
  float* var = nullptr;           // [channels]
  float* running_mean = nullptr;  // [channels]; null: nothing is updated
  float* running_var = nullptr;   // [channels]
  float momentum = 0;
};

/// Batch normalization, an optional addition, and an optional relu:
/// y = relu((x - mean) / sqrt(var + eps) * weight + bias + residual).
struct BatchNormRelu : PixelRows {
  const void* residual = nullptr;  // [rows, channels]; null: nothing is added
  const float* mean = nullptr;     // [channels]
  const float* var = nullptr;      // [channels], biased
  const float* weight = nullptr;   // [channels]
  const float* bias = nullptr;     // [channels]
  float eps = 0;
  bool relu = true;   // false: y is the argument of relu
  void* y = nullptr;  // [rows, channels]
};

/// Its gradients, where mean and variance are those of the rows of x. The gradient of the residual
/// is that of y where y is above 0. Without a residual, x shows where that is, and y is not read.
struct BatchNormReluBackward : BatchNormRelu {
  const void* y_grad = nullptr;   // [rows, channels]
  void* x_grad = nullptr;         // [rows, channels]; null: not computed
  void* residual_grad = nullptr;  // [rows, channels]; null: nothing was added
  float* parts = nullptr;         // [parts_of(job), 2, channels]: partial sums, for these two:
  float* weight_grad = nullptr;   // [channels]
  float* bias_grad = nullptr;     // [channels]
};

constexpr int kNormReluThreads = 256;

/// How the threads of a GPU divide rows and channels. It does not depend on the GPU, so that all
/// GPUs add in the same order.
struct NormReluGrid {
  int lanes;            // of a block, for adjacent packs of channels: a power of two
  int rows;             // of a block, which it processes at a time
  std::int64_t tiles;   // blocks for the channels
  std::int64_t blocks;  // blocks for the rows, which are also the parts of a sum
};

/// Returns the grid for rows with so many packs of channels.
constexpr NormReluGrid norm_relu_grid(std::int64_t rows, std::int64_t packs) {
  constexpr std::int64_t kBlocks = 1024;
  int lanes = 1;
  while (lanes < packs && lanes < kWarp) lanes *= 2;
  const int at_a_time = kNormReluThreads / lanes;
  const std::int64_t tiles = (packs + lanes - 1) / lanes;
  const std::int64_t most = (rows + at_a_time - 1) / at_a_time;
  const std::int64_t wanted = (kBlocks + tiles - 1) / tiles;
  return {lanes, at_a_time, tiles, wanted < most ? wanted : most};
}

template <class T>
constexpr NormReluGrid norm_relu_grid(const PixelRows& job) {
  return norm_relu_grid(job.rows, job.channels / kPackOf<T>);
}

/// Returns the number of blocks whose sums over rows have to be added.
constexpr std::int64_t parts_of(const PixelRows& job) {
  const int pack = job.type == Element::float32 ? kPackOf<float> : kPackOf<std::int16_t>;
  return norm_relu_grid(job.rows, job.channels / pack).blocks;
}

/// The elements of a pack as float32.
template <class T>
using Floats = Pack<float, kPackOf<T>>;

/// Elements that were loaded, but not yet converted.
template <class T>
using Elements = Pack<T, kPackOf<T>>;

template <class T>
TRAINCTL_HOST_DEVICE Elements<T> fetch(const void* from, std::int64_t first) {
  return *reinterpret_cast<const Elements<T>*>(static_cast<const T*>(from) + first);
}

template <class T>
TRAINCTL_HOST_DEVICE Floats<T> convert(const Elements<T>& elements) {
  Floats<T> all{};
  for (int i = 0; i < kPackOf<T>; ++i) all.values[i] = static_cast<float>(elements.values[i]);
  return all;
}

/// Calls use(place, fetch_row(place)) for every `step`-th row from `first`, where `place` is that
/// of the pack of channels that starts at `channel`. The elements of kAhead rows are loaded before
/// they are used, as many as registers allow.
template <int kAhead, class FetchRow, class Use>
TRAINCTL_HOST_DEVICE void for_rows(const PixelRows& job, std::int64_t channel, std::int64_t first,
                                   std::int64_t step, FetchRow fetch_row, Use use) {
  for (std::int64_t row = first; row < job.rows; row += kAhead * step) {
    decltype(fetch_row(row)) rows[kAhead];
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      // Loading the first row again costs nothing, and no load depends on a branch.
      const std::int64_t next = row + ahead * step;
      rows[ahead] = fetch_row((next < job.rows ? next : row) * job.channels + channel);
    }
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const std::int64_t next = row + ahead * step;
      if (next < job.rows) use(next * job.channels + channel, rows[ahead]);
    }
  }
}

/// The elements of several tensors at one place.
template <class T>
struct ElementPair {
  Elements<T> first, second;
};
template <class T>
struct ElementTriple {
  Elements<T> first, second, third;
};

/// A set of numbers: how many, their mean, and their sum of squared deviations from it.
struct Moments {
  float count;
  float mean;
  float squares;
};

/// Chan et al. 1979.
TRAINCTL_HOST_DEVICE Moments merge_moments(const Moments& some, const Moments& others) {
  if (others.count == 0) return some;
  if (some.count == 0) return others;
  const float count = some.count + others.count;
  const float share = others.count / count;
  const float delta = others.mean - some.mean;
  return {count, some.mean + delta * share,
          some.squares + others.squares + delta * delta * some.count * share};
}

/// Moments of a pack of channels over the same rows.
template <class T>
struct PackMoments {
  float count;
  Floats<T> mean;
  Floats<T> squares;
};

template <class T>
TRAINCTL_HOST_DEVICE Moments moments_of(const PackMoments<T>& pack, int i) {
  return {pack.count, pack.mean.values[i], pack.squares.values[i]};
}

/// Computes the moments of the pack of channels that starts at `channel`, in every `step`-th row
/// from `first`. Deviations from the first row lose no digits, however far from 0 a channel is.
template <class T>
TRAINCTL_HOST_DEVICE PackMoments<T> lane_moments(const BatchMoments& job, std::int64_t channel,
                                                 std::int64_t first, std::int64_t step) {
  constexpr int kCount = kPackOf<T>;
  PackMoments<T> all{};
  if (first >= job.rows) return all;
  const Floats<T> base = convert<T>(fetch<T>(job.x, first * job.channels + channel));
  Floats<T> sums{};
  for_rows<4>(
      job, channel, first, step, [&](std::int64_t place) { return fetch<T>(job.x, place); },
      [&](std::int64_t /*place*/, const Elements<T>& x) {
        const Floats<T> values = convert<T>(x);
        for (int i = 0; i < kCount; ++i) {
          const float deviation = values.values[i] - base.values[i];
          sums.values[i] += deviation;
          all.squares.values[i] += deviation * deviation;
        }
      });
  all.count = static_cast<float>((job.rows - first - 1) / step + 1);
  for (int i = 0; i < kCount; ++i) {
    const float shift = sums.values[i] / all.count;
    const float squares = all.squares.values[i] - sums.values[i] * shift;
    all.mean.values[i] = base.values[i] + shift;
    all.squares.values[i] = squares < 0 ? 0 : squares;  // NaN stays
  }
  return all;
}

/// Writes the results of a channel, whose moments over all rows are known.
TRAINCTL_HOST_DEVICE void write_moments(const BatchMoments& job, std::int64_t channel,
                                        const Moments& all) {
  job.mean[channel] = all.mean;
  job.var[channel] = all.squares / all.count;
  if (job.running_mean == nullptr) return;
  const float unbiased = all.squares / (all.count - 1);
  const float keep = 1 - job.momentum;
  job.running_mean[channel] = job.momentum * all.mean + keep * job.running_mean[channel];
  job.running_var[channel] = job.momentum * unbiased + keep * job.running_var[channel];
}

/// What a lane keeps of its channels.
template <class T>
struct NormChannels {
  Floats<T> mean;
  Floats<T> scale;  // weight / sqrt(var + eps)
  Floats<T> bias;
};

template <class T>
TRAINCTL_HOST_DEVICE Floats<T> inverse_deviations(const BatchNormRelu& job, std::int64_t channel) {
  Floats<T> all = load<kPackOf<T>>(job.var + channel);
  for (float& value : all.values) value = 1 / std::sqrt(value + job.eps);
  return all;
}

template <class T>
TRAINCTL_HOST_DEVICE NormChannels<T> norm_channels(const BatchNormRelu& job, std::int64_t channel) {
  constexpr int kCount = kPackOf<T>;
  NormChannels<T> all{load<kCount>(job.mean + channel), load<kCount>(job.weight + channel),
                      load<kCount>(job.bias + channel)};
  const Floats<T> inverse = inverse_deviations<T>(job, channel);
  for (int i = 0; i < kCount; ++i) all.scale.values[i] *= inverse.values[i];
  return all;
}

/// Returns the normalized value. The explicit fma makes forward and backward pass round alike.
template <class T>
TRAINCTL_HOST_DEVICE float normalize(const NormChannels<T>& channels, float x, int i) {
  return std::fma(x - channels.mean.values[i], channels.scale.values[i], channels.bias.values[i]);
}

/// Computes a pack of channels in the lane's rows.
template <bool kAdds, class T>
TRAINCTL_HOST_DEVICE void lane_norm_relu(const BatchNormRelu& job, std::int64_t channel,
                                         std::int64_t first, std::int64_t step) {
  const NormChannels<T> channels = norm_channels<T>(job, channel);
  for_rows<4>(
      job, channel, first, step,
      [&](std::int64_t place) {
        ElementPair<T> all{fetch<T>(job.x, place), {}};
        if constexpr (kAdds) all.second = fetch<T>(job.residual, place);
        return all;
      },
      [&](std::int64_t place, const ElementPair<T>& all) {
        Floats<T> y = convert<T>(all.first);
        for (int i = 0; i < kPackOf<T>; ++i) {
          float value = normalize(channels, y.values[i], i);
          if constexpr (kAdds) value += static_cast<float>(all.second.values[i]);
          y.values[i] = job.relu && value <= 0 ? 0 : value;  // NaN stays
        }
        store<kPackOf<T>>(static_cast<T*>(job.y) + place, y);
      });
}

/// Sums over rows: of the gradient g of the value before relu, and of g times the normalized x
/// before weight and bias.
template <class T>
struct NormReluSums {
  Floats<T> plain;
  Floats<T> scaled;
};

/// Returns g: the gradient of y where y, rounded like the result of the forward pass, is above 0;
/// without relu everywhere. `shows` is y with a residual, else x.
template <bool kAdds, class T>
TRAINCTL_HOST_DEVICE Floats<T> gradient_before_relu(const BatchNormRelu& job,
                                                    const NormChannels<T>& channels,
                                                    const Elements<T>& gradient,
                                                    const Elements<T>& shows) {
  Floats<T> g = convert<T>(gradient);
  if (!job.relu) return g;
  const Floats<T> values = convert<T>(shows);
  for (int i = 0; i < kPackOf<T>; ++i) {
    float y = values.values[i];
    if constexpr (!kAdds)
      y = static_cast<float>(static_cast<T>(normalize(channels, values.values[i], i)));
    if (y <= 0) g.values[i] = 0;
  }
  return g;
}

/// Returns the sums of the lane's rows, and writes the gradient of the residual.
template <bool kAdds, class T>
TRAINCTL_HOST_DEVICE NormReluSums<T> lane_norm_relu_sums(const BatchNormReluBackward& job,
                                                         std::int64_t channel, std::int64_t first,
                                                         std::int64_t step) {
  constexpr int kCount = kPackOf<T>;
  const NormChannels<T> channels = norm_channels<T>(job, channel);
  NormReluSums<T> sums{};
  for_rows<2>(
      job, channel, first, step,
      [&](std::int64_t place) {
        ElementTriple<T> all{fetch<T>(job.y_grad, place), fetch<T>(job.x, place), {}};
        if constexpr (kAdds) all.third = fetch<T>(job.y, place);
        return all;
      },
      [&](std::int64_t place, const ElementTriple<T>& all) {
        const Floats<T> g = gradient_before_relu<kAdds, T>(job, channels, all.first,
                                                           kAdds ? all.third : all.second);
        const Floats<T> x = convert<T>(all.second);
        for (int i = 0; i < kCount; ++i) {
          sums.plain.values[i] += g.values[i];
          sums.scaled.values[i] += g.values[i] * (x.values[i] - channels.mean.values[i]);
        }
        if constexpr (kAdds) store<kCount>(static_cast<T*>(job.residual_grad) + place, g);
      });
  const Floats<T> inverse = inverse_deviations<T>(job, channel);
  for (int i = 0; i < kCount; ++i) sums.scaled.values[i] *= inverse.values[i];
  return sums;
}

/// Writes the gradient of x in the lane's rows. The gradients of weight and bias, which are the
/// sums over all rows, and that of the residual are known.
template <bool kAdds, class T>
TRAINCTL_HOST_DEVICE void lane_norm_relu_gradients(const BatchNormReluBackward& job,
                                                   std::int64_t channel, std::int64_t first,
                                                   std::int64_t step) {
  constexpr int kCount = kPackOf<T>;
  const NormChannels<T> channels = norm_channels<T>(job, channel);
  Floats<T> plain = load<kCount>(job.bias_grad + channel);     // the mean of g
  Floats<T> scaled = load<kCount>(job.weight_grad + channel);  // its dependence on x
  const Floats<T> inverse = inverse_deviations<T>(job, channel);
  const float share = 1 / static_cast<float>(job.rows);
  for (int i = 0; i < kCount; ++i) {
    plain.values[i] *= share;
    scaled.values[i] *= share * inverse.values[i];
  }
  for_rows<2>(
      job, channel, first, step,
      [&](std::int64_t place) {
        return ElementPair<T>{fetch<T>(kAdds ? job.residual_grad : job.y_grad, place),
                              fetch<T>(job.x, place)};
      },
      [&](std::int64_t place, const ElementPair<T>& all) {
        Floats<T> out = convert<T>(all.first);
        if constexpr (!kAdds)
          out = gradient_before_relu<false, T>(job, channels, all.first, all.second);
        const Floats<T> x = convert<T>(all.second);
        for (int i = 0; i < kCount; ++i) {
          const float centered = x.values[i] - channels.mean.values[i];
          out.values[i] = (out.values[i] - plain.values[i] - centered * scaled.values[i]) *
                          channels.scale.values[i];
        }
        store<kCount>(static_cast<T*>(job.x_grad) + place, out);
      });
}

/// Returns the bytes of device memory that a launch has to move; the channels are negligible.
inline std::int64_t traffic(const BatchMoments& job) {
  const std::int64_t element = job.type == Element::float32 ? 4 : 2;
  return job.rows * job.channels * element + parts_of(job) * 3 * job.channels * 4 * 2;
}

inline std::int64_t traffic(const BatchNormRelu& job) {
  const std::int64_t element = job.type == Element::float32 ? 4 : 2;
  return job.rows * job.channels * element * (job.residual == nullptr ? 2 : 3);
}

inline std::int64_t traffic(const BatchNormReluBackward& job) {
  const std::int64_t element = job.type == Element::float32 ? 4 : 2;
  const std::int64_t sums = job.residual_grad == nullptr ? 2 : 4;  // reads y, writes a gradient
  const std::int64_t gradients = job.x_grad == nullptr ? 0 : 3;
  const std::int64_t parts = parts_of(job) * 2 * job.channels * 4 * 2;
  return job.rows * job.channels * element * (sums + gradients) + parts;
}

/// Do the work of the kernels on a CPU.
void batch_moments_on_host(const BatchMoments& job);
void batch_norm_relu_on_host(const BatchNormRelu& job);
void batch_norm_relu_backward_on_host(const BatchNormReluBackward& job);

}  // namespace trainctl::device
