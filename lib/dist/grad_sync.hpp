#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::dist {

/// The position of a rank in its group, as torch.distributed numbers ranks.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
};

/// The implementation of buckets: c10d's Reducer, or our own hooks, which a CUDA graph can capture.
/// Both produce the same bits.
enum class Bucketing { reducer, hooks };

/// How gradients are compressed for communication.
enum class Compression { none, bf16, fp16, powersgd };

/// The first bucket is small so that communication starts early in the backward pass.
struct BucketOptions {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t cap_bytes = std::size_t{25} << 20;
  Bucketing bucketing = Bucketing::reducer;
  Compression compression = Compression::none;
  std::int64_t powersgd_rank = 1;
  bool find_unused = false;  // the loss may depend on only some of the parameters
  bool exchanges = true;  // false: ranks start with equal weights, and each keeps its own gradients
  /// Names of the parameters for errors and for the state; empty: they are numbered.
  std::vector<std::string> names;
};

/// The cost of synchronizing gradients, summed over steps.
struct SyncStats {
  std::int64_t steps = 0;
  std::int64_t payload_bytes = 0;  // size of the buckets, after compression
  std::int64_t wire_bytes = 0;     // bytes that this rank sends for them
  double overlapped_s = 0;         // from the launch of the first bucket to the last gradient
  double exposed_s = 0;            // from the last gradient to the end of communication

  /// Adds the cost of another collective in the same steps; `steps` does not change.
  SyncStats& operator+=(const SyncStats& other) {
    payload_bytes += other.payload_bytes;
    wire_bytes += other.wire_bytes;
    overlapped_s += other.overlapped_s;
    exposed_s += other.exposed_s;
    return *this;
  }
};

/// State that a GradSync keeps between steps. The tensor shares storage, so a checkpoint is copied
/// into it.
struct SyncTensor {
  std::string name;
  at::Tensor tensor;
  bool of_rank = false;  // it differs between ranks
};

/// Averages gradients over the ranks during the backward pass. The bucket layout never changes, so
/// that a resumed run adds in the same order as an uninterrupted one. The base class does not
/// communicate: each rank keeps its own gradients.
class GradSync {
 public:
  virtual ~GradSync() = default;
  /// Call it before the forward pass whose gradients will be averaged. With gradient accumulation,
  /// the earlier batches of a window call neither this nor `backward`.
  virtual void before_forward() {}
  /// Runs loss.backward(); on return every gradient is the average over the ranks. Returns the
  /// seconds of communication after the last gradient was computed; on a GPU those of earlier
  /// steps. Throws Error(config) naming parameters without a gradient, unless find_unused is set.
  virtual double backward(const at::Tensor& loss) {
    loss.backward();
    return 0;
  }
  /// Returns the buckets in the order of communication, each as parameters x elements:
  /// "2x1300,14x25600". Empty without communication.
  [[nodiscard]] virtual std::string layout() const { return {}; }
  /// Returns the size of each bucket after compression, in the same order.
  [[nodiscard]] virtual std::vector<std::int64_t> bucket_bytes() const { return {}; }
  /// Returns the statistics since the last call.
  virtual SyncStats take_stats() { return {}; }
  /// Counts the communication of a replayed CUDA graph.
  virtual void count_repeated() {}
  /// Returns the state for a checkpoint, such as residuals of compressed gradients.
  [[nodiscard]] virtual std::vector<SyncTensor> state() const { return {}; }
};

/// Indices of the parameters in each bucket, with the buckets in the order of communication. It
/// depends on the parameters and the options only.
using Layout = std::vector<std::vector<std::size_t>>;
/// Returns the layout that c10d's compute_bucket_assignment_by_size computes, reversed.

Layout layout_of(const std::vector<at::Tensor>& parameters, const BucketOptions& options);
/// Returns the text of GradSync::layout().
std::string text_of(const Layout& layout, const std::vector<at::Tensor>& parameters);
/// Returns the common device of the parameters.
c10::Device device_of(const std::vector<at::Tensor>& parameters);
/// Returns the size of each bucket without compression.
std::vector<std::int64_t> bytes_of(const Layout& layout, const std::vector<at::Tensor>& parameters);

}  // namespace trainctl::dist
