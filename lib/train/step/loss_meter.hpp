#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trainctl::train {

/// Sum of losses and of what they weigh: a sample 1, or its class's weight. On a GPU it stays on
/// the device until it is read.
class LossMeter {
 public:
  enum class NotFinite { counts, is_left_out };
  /// Where a GPU's rows are counted: its host cannot count those of a step that the GPU repeats.
  enum class Rows { on_host, on_device };
  explicit LossMeter(at::Device device, NotFinite not_finite = NotFinite::counts,
                     Rows rows = Rows::on_host);

  /// Returns false where a CPU sees at once that the loss is not finite, and that counts; a GPU
  /// tells when the total is read.
  bool add(const stage::LossValue& loss, std::int64_t rows);
  /// Waits for the device.
  [[nodiscard]] double total() const;
  /// Waits for the device where the loss weighs its rows, may be left out, or rows are counted
  /// there.
  [[nodiscard]] double weight() const;
  [[nodiscard]] bool leaves_out() const { return leaves_out_; }
  void reset();

  /// Adds what another one of the same device has summed.
  void add(const LossMeter& other);

  /// The sums of a GPU, live; none on a CPU.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  /// Those of the host.
  void memorise(Memo& memo);

 private:
  bool add_on_cpu(const stage::LossValue& loss, std::int64_t rows);
  void add_on_device(const stage::LossValue& loss, std::int64_t rows);

  bool leaves_out_;
  bool on_device_;
  at::Tensor device_total_;   // float64 scalars; undefined on a CPU
  at::Tensor device_weight_;  // of what the host does not count
  double total_ = 0;
  double weight_ = 0;
};

/// The mean of what was summed; 0 where nothing had a weight.
inline double mean_loss(double total, double weight) { return weight > 0 ? total / weight : total; }

}  // namespace trainctl::train
