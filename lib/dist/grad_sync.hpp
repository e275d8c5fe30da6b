#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::dist {

struct Place {
  int rank = 0;
  int world_size = 1;
};

/// Who fills the buckets: c10d's Reducer, or hooks of our own, whose work a CUDA graph can record.
/// Both give the same bits.
enum class Bucketing { reducer, own };

/// How gradients travel.
enum class Compression { none, bf16, fp16, powersgd };

/// The first bucket is small, so that the exchange starts early in backward.
struct BucketOptions {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t cap_bytes = std::size_t{25} << 20;
  Bucketing bucketing = Bucketing::reducer;
  Compression compression = Compression::none;
  std::int64_t powersgd_rank = 1;
  bool find_unused = false;  // a loss may depend on some of the parameters only
  bool exchanges = true;     // false: ranks begin alike, and each keeps its own gradients
  /// Of the parameters, for errors and for the state; empty: they are numbered.
  std::vector<std::string> names;
};

/// What exchanging gradients took, summed over steps.
struct SyncStats {
  std::int64_t steps = 0;
  std::int64_t payload_bytes = 0;  // of the buckets, as they are sent
  std::int64_t wire_bytes = 0;     // that this rank sends of them
  double overlapped_s = 0;         // from the first bucket that left to the last gradient
  double exposed_s = 0;            // from the last gradient to the end of the exchange

  /// Adds what another exchange of the same steps took; `steps` stays.
  SyncStats& operator+=(const SyncStats& other) {
    payload_bytes += other.payload_bytes;
    wire_bytes += other.wire_bytes;
    overlapped_s += other.overlapped_s;
    exposed_s += other.exposed_s;
    return *this;
  }
};

/// What a GradSync keeps from step to step: live, so that a checkpoint is copied into it.
struct SyncTensor {
  std::string name;
  at::Tensor tensor;
  bool of_rank = false;  // the ranks differ in it
};

/// Averages gradients over the ranks while backward runs. The layout of its buckets never changes,
/// so that a resumed run adds in the same order as an uninterrupted one. The base class exchanges
/// nothing: each rank keeps its own gradients.
class GradSync {
 public:
  virtual ~GradSync() = default;
  /// Before the forward whose backward is to be averaged; the earlier ones of an accumulation call
  /// neither.
  virtual void before_forward() {}
  /// Runs loss.backward(); on return every gradient holds the average over the ranks. Returns the
  /// seconds of the exchange after the last gradient was computed, on a GPU those of earlier steps.
  /// Throws Error(config) naming parameters that got no gradient, where find_unused is not set.
  virtual double backward(const at::Tensor& loss) {
    loss.backward();
    return 0;
  }
  /// The buckets in the order of the exchange, each as parameters x elements: "2x1300,14x25600".
  /// Empty where nothing is exchanged.
  [[nodiscard]] virtual std::string layout() const { return {}; }
  /// Bytes of each bucket as it is sent, in that order.
  [[nodiscard]] virtual std::vector<std::int64_t> bucket_bytes() const { return {}; }
  /// What was exchanged since the last call.
  virtual SyncStats take_stats() { return {}; }
  /// A step that was recorded has been repeated: what it exchanged counts again.
  virtual void count_repeated() {}
  [[nodiscard]] virtual std::vector<SyncTensor> state() const { return {}; }
};

/// Numbers of the parameters of each bucket, the buckets in the order of the exchange: a function
/// of the parameters and the options alone.
using Layout = std::vector<std::vector<std::size_t>>;

Layout layout_of(const std::vector<at::Tensor>& parameters, const BucketOptions& options);
/// As GradSync::layout().
std::string text_of(const Layout& layout, const std::vector<at::Tensor>& parameters);
/// The one on which all of them lie.
c10::Device device_of(const std::vector<at::Tensor>& parameters);
/// Of the gradients as they are.
std::vector<std::int64_t> bytes_of(const Layout& layout, const std::vector<at::Tensor>& parameters);

}  // namespace trainctl::dist
