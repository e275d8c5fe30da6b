#pragma once

#include "device/row_math.hpp"

#include <limits>

// The CUDA compiler reads this file, too: C++17 and plain types only.

namespace trainctl::device {

/// The cross entropy of rows of logits with class targets, like torch.nn.functional.cross_entropy
/// with weight, label_smoothing and ignore_index, and its gradient with respect to the logits. A
/// mixed row has the loss lambda L(target) + (1 - lambda) L(partner). A row may have a probability
/// for each class instead, as a label distribution or a soft label.
struct RowEntropy {
  const void* logits = nullptr;            // [rows, classes], aligned to kPackBytes
  std::int64_t stride = 0;                 // elements between the rows of logits and gradients
  Element type = Element::float32;         // of logits and gradients
  const std::int64_t* targets = nullptr;   // [rows]: one class per row
  const std::int64_t* partners = nullptr;  // [rows]: the second class; null: rows are not mixed
  const float* lambdas = nullptr;          // [rows]: share of the first class of mixed rows
  const float* probabilities = nullptr;    // like the logits; null: `targets` has classes
  const float* weights = nullptr;          // [classes]; null: every class has weight 1
  float weight_sum = 0;                    // of all classes; used only with smoothing
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  std::int64_t ignored = -100;  // target without loss
  float smoothing = 0;
  float* losses = nullptr;        // [rows]; null: only gradients are computed, from `stats`
  float* stats = nullptr;         // [rows, 2], RowStats: written with the losses, read without
  void* gradients = nullptr;      // like the logits; null: not computed
  float scale = 1;                // factor of the gradients
  const float* factor = nullptr;  // one more factor, in the memory of the device; null: 1
  float expected = std::numeric_limits<float>::quiet_NaN();  // a factor that needs no work
};

/// The largest of a set of logits of a row, and the sum of exp(logit - largest).
struct RowSum {
  float largest;
  float sum;
};

/// The values of a row from which log-softmax follows: logit - largest - log_sum.
struct RowStats {
  float largest;
  float log_sum;
};

/// The loss of a row is the sum of -log p_c over the classes with these weights.
struct RowTarget {
  std::int64_t own;      // -1: no class
  std::int64_t partner;  // -1: no class
  float own_weight;      // of -log p of the class `own`
  float partner_weight;  // of -log p of the class `partner`
  float each;            // of -weights[c] log p_c of every class c; 0 with probabilities
  float total;           // of all of them; with probabilities, the sum of lane_total()
  bool counts;           // false: the row is ignored
  bool valid;            // false: a target is not a class
};

/// Returns whether the gradients, which were computed for this factor, are already correct.
TRAINCTL_HOST_DEVICE bool is_done(const RowEntropy& job) {
  return job.factor != nullptr && *job.factor == job.expected;
}

/// Returns whether every class of a row has a term in the loss.
TRAINCTL_HOST_DEVICE bool sums_all_classes(const RowEntropy& job) {
  return job.smoothing != 0 || job.probabilities != nullptr;
}

/// Returns whether the logits are read a second time, after the sums of their exponentials.
TRAINCTL_HOST_DEVICE bool reads_twice(const RowEntropy& job) {
  return job.gradients != nullptr || sums_all_classes(job);
}

TRAINCTL_HOST_DEVICE float class_weight(const RowEntropy& job, std::int64_t c) {
  return job.weights == nullptr ? 1 : job.weights[c];
}

TRAINCTL_HOST_DEVICE RowTarget row_target(const RowEntropy& job, std::int64_t row) {
  const bool mixed = job.partners != nullptr;
  if (job.probabilities != nullptr) return {-1, -1, 0, 0, 0, 0, true, true};
  RowTarget target{};
  target.own = job.targets[row];
  target.partner = mixed ? job.partners[row] : target.own;
  const bool own_counts = target.own != job.ignored;
  const bool partner_counts = mixed && target.partner != job.ignored;
  const bool own_valid = target.own >= 0 && target.own < job.classes;
  const bool partner_valid = target.partner >= 0 && target.partner < job.classes;
  const float lambda = mixed ? job.lambdas[row] : 1;
  const float hard = 1 - job.smoothing;
  target.counts = own_counts || partner_counts;
  target.valid = (own_valid || !own_counts) && (partner_valid || !partner_counts);
  float shares = 0;
  if (own_counts && own_valid) {
    target.own_weight = lambda * hard * class_weight(job, target.own);
    shares += lambda;
  }
  if (partner_counts && partner_valid) {
    target.partner_weight = (1 - lambda) * hard * class_weight(job, target.partner);
    shares += 1 - lambda;
  }
  target.each = shares * job.smoothing / static_cast<float>(job.classes);
  target.total = target.own_weight + target.partner_weight;
  if (target.each != 0) target.total += target.each * job.weight_sum;
  return target;
}

/// Returns the weights of -log p_c of kCount classes in the loss of a row with probabilities.
/// `place` is the position of the first one in the logits.
template <int kCount>
TRAINCTL_HOST_DEVICE Pack<float, kCount> probability_weights(const RowEntropy& job,
                                                             std::int64_t column,
                                                             std::int64_t place) {
  const float even = job.smoothing / static_cast<float>(job.classes);
  Pack<float, kCount> all = load<kCount>(job.probabilities + place);
  for (int i = 0; i < kCount; ++i)
    all.values[i] = ((1 - job.smoothing) * all.values[i] + even) * class_weight(job, column + i);
  return all;
}

/// Adds logits to the sum.
template <int kCount>
TRAINCTL_HOST_DEVICE RowSum add_logits(const RowSum& part, const Pack<float, kCount>& logits) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  float largest = part.largest;
  for (const float logit : logits.values) largest = logit > largest ? logit : largest;
  const float base = largest == kLeast ? 0 : largest;  // -inf - -inf would be NaN
  float sum = part.sum * exponential(part.largest - base);
  for (const float logit : logits.values) sum += exponential(logit - base);
  return {largest, sum};
}

/// Merges the sums of two sets of logits.
TRAINCTL_HOST_DEVICE RowSum merge_sums(const RowSum& some, const RowSum& others) {
  if (others.sum == 0) return some;  // only -inf so far
  if (some.sum == 0) return others;
  const float largest = some.largest > others.largest ? some.largest : others.largest;
  return {largest, some.sum * exponential(some.largest - largest) +
                       others.sum * exponential(others.largest - largest)};
}

TRAINCTL_HOST_DEVICE RowStats stats_of(const RowSum& whole) {
  return {whole.largest, std::log(whole.sum)};
}

/// How the lanes divide a row whose start may be between two aligned addresses: `head` single
/// elements, then packs, then `tail` single elements.
struct RowSplit {
  std::int64_t head;
  std::int64_t packs;
  std::int64_t tail;
};

template <class T>
TRAINCTL_HOST_DEVICE RowSplit split_row(std::int64_t start, std::int64_t columns) {
  constexpr std::int64_t kCount = kPackOf<T>;
  std::int64_t head = (kCount - start % kCount) % kCount;
  if (head > columns) head = columns;
  const std::int64_t packs = (columns - head) / kCount;
  return {head, packs, columns - head - packs * kCount};
}

/// Returns the sum over the lane's part of the row.
template <class T>
TRAINCTL_HOST_DEVICE RowSum lane_sum(const RowEntropy& job, std::int64_t row, int lane, int lanes) {
  constexpr int kCount = kPackOf<T>;
  const T* logits = static_cast<const T*>(job.logits) + row * job.stride;
  const RowSplit split = split_row<T>(row * job.stride, job.classes);
  RowSum part{-std::numeric_limits<float>::infinity(), 0};
  if (lane < split.head) part = add_logits(part, load<1>(logits + lane));
  const T* packs = logits + split.head;
  for (std::int64_t i = lane; i < split.packs; i += lanes)
    part = add_logits(part, load<kCount>(packs + i * kCount));
  if (lane < split.tail) part = add_logits(part, load<1>(packs + split.packs * kCount + lane));
  return part;
}

template <int kCount>
TRAINCTL_HOST_DEVICE float sum_weights(const RowEntropy& job, std::int64_t row,
                                       std::int64_t column) {
  const Pack<float, kCount> weights =
      probability_weights<kCount>(job, column, row * job.stride + column);
  float sum = 0;
  for (const float weight : weights.values) sum += weight;
  return sum;
}

/// Returns the lane's part of RowTarget::total of a row with probabilities.
template <class T>
TRAINCTL_HOST_DEVICE float lane_total(const RowEntropy& job, std::int64_t row, int lane,
                                      int lanes) {
  constexpr int kCount = kPackOf<T>;
  const RowSplit split = split_row<T>(row * job.stride, job.classes);
  float sum = 0;
  if (lane < split.head) sum += sum_weights<1>(job, row, lane);
  for (std::int64_t i = lane; i < split.packs; i += lanes)
    sum += sum_weights<kCount>(job, row, split.head + i * kCount);
  if (lane < split.tail) sum += sum_weights<1>(job, row, split.head + split.packs * kCount + lane);
  return sum;
}

TRAINCTL_HOST_DEVICE float log_probability(float logit, const RowStats& stats) {
  return logit - stats.largest - stats.log_sum;
}

/// A row in the second pass over its logits.
template <class T>
struct RowGradient {
  const RowEntropy& job;
  const RowTarget& target;
  const RowStats& stats;
  std::int64_t start;  // of the row in the logits
  const T* logits;
  T* gradients;  // null: not computed
  float multiplier;
};

/// Writes the gradients of kCount columns. Returns the sum of their log probabilities with the
/// weights of all classes, if they have any.
template <int kCount, bool kProbabilities, class T>
TRAINCTL_HOST_DEVICE float write_gradients(const RowGradient<T>& row, std::int64_t column) {
  const Pack<float, kCount> logits = load<kCount>(row.logits + column);
  [[maybe_unused]] Pack<float, kCount> weights{};
  if constexpr (kProbabilities)
    weights = probability_weights<kCount>(row.job, column, row.start + column);
  Pack<float, kCount> out{};
  float sum = 0;
  for (int i = 0; i < kCount; ++i) {
    const float log_p = log_probability(logits.values[i], row.stats);
    out.values[i] = exponential(log_p) * row.target.total;
    float weight = weights.values[i];
    if constexpr (!kProbabilities) {
      if (row.target.each == 0) continue;
      weight = row.target.each * class_weight(row.job, column + i);
    }
    sum += weight * log_p;
    out.values[i] -= weight;
  }
  if (row.gradients == nullptr) return sum;
  for (int i = 0; i < kCount; ++i) {
    if (column + i == row.target.own) out.values[i] -= row.target.own_weight;
    if (column + i == row.target.partner) out.values[i] -= row.target.partner_weight;
    out.values[i] = row.target.counts ? out.values[i] * row.multiplier : 0;
  }
  store<kCount>(row.gradients + column, out);
  return sum;
}

/// Writes the lane's part of the row's gradient and returns its part of the weighted sum of log
/// probabilities.
template <class T, bool kProbabilities>
TRAINCTL_HOST_DEVICE float lane_gradients(const RowEntropy& job, std::int64_t row,
                                          const RowTarget& target, const RowStats& stats, int lane,
                                          int lanes) {
  constexpr int kCount = kPackOf<T>;
  const std::int64_t start = row * job.stride;
  const float factor = job.factor == nullptr ? 1 : *job.factor;
  // An invalid class shows up as a non-finite loss.
  const float multiplier =
      target.valid ? factor * job.scale : std::numeric_limits<float>::quiet_NaN();
  T* gradients = job.gradients == nullptr ? nullptr : static_cast<T*>(job.gradients) + start;
  const RowGradient<T> all{
      job, target, stats, start, static_cast<const T*>(job.logits) + start, gradients, multiplier};
  const RowSplit split = split_row<T>(row * job.stride, job.classes);
  float sum = 0;
  if (lane < split.head) sum += write_gradients<1, kProbabilities>(all, lane);
  for (std::int64_t i = lane; i < split.packs; i += lanes)
    sum += write_gradients<kCount, kProbabilities>(all, split.head + i * kCount);
  if (lane < split.tail)
    sum += write_gradients<1, kProbabilities>(all, split.head + split.packs * kCount + lane);
  return sum;
}

/// Returns the loss of the row; NaN for an invalid class. `sum_of_log_p` is used only if all
/// classes have a term.
template <class T>
TRAINCTL_HOST_DEVICE float row_loss(const RowEntropy& job, std::int64_t row,
                                    const RowTarget& target, const RowStats& stats,
                                    float sum_of_log_p) {
  if (!target.counts) return 0;
  if (!target.valid) return std::numeric_limits<float>::quiet_NaN();
  const T* logits = static_cast<const T*>(job.logits) + row * job.stride;
  float loss = 0;  // 0 times an infinite logarithm would be NaN
  if (target.own_weight != 0)
    loss -= target.own_weight * log_probability(static_cast<float>(logits[target.own]), stats);
  if (target.partner_weight != 0)
    loss -=
        target.partner_weight * log_probability(static_cast<float>(logits[target.partner]), stats);
  if (sums_all_classes(job)) loss -= sum_of_log_p;
  return loss;
}

/// Returns the bytes of device memory that a launch has to move: logits, probabilities and
/// gradients once. The second read of a row is expected in the cache.
inline std::int64_t traffic(const RowEntropy& job) {
  const std::int64_t element = job.type == Element::float32 ? 4 : 2;
  const std::int64_t passes = job.gradients == nullptr ? 1 : 2;
  const std::int64_t probability = job.probabilities == nullptr ? 0 : 4;
  return job.rows * job.classes * (element * passes + probability);
}

/// Does the work of the kernel on a CPU.
void row_entropy_on_host(const RowEntropy& job);

}  // namespace trainctl::device
