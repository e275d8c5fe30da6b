#pragma once

#include "base/statistics.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// The events that a worker sends to the supervisor, which are the only data that the engine half
// passes to the front half. Plain values; times are seconds of the worker's steady clock.

namespace trainctl::events {

/// Metric values by full name, in the order in which tables show them: "train/loss", "val/loss",
/// "val/accuracy".
using Metrics = std::vector<std::pair<std::string, double>>;

/// Returns the value of a metric, if it is in the list.
inline std::optional<double> find_metric(const Metrics& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &Metrics::value_type::first);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

/// The wall time of an epoch by phase, in seconds; the phases sum to wall_s within 2 %. One row of
/// timing.csv.
struct Timing {
  double wall_s = 0;
#define TIMING_PHASE(phase, member, ...) double member = 0;
#include "events/timing_fields.def"
#undef TIMING_PHASE
  std::int64_t samples = 0;
  double samples_per_s = 0;  // see training_rate()
  double first_batch_s = 0;  // from the start of the epoch to the first batch
  double cpu_percent = 0;    // 100 is one core
  double rss_mb = 0;         // peak so far
  std::optional<double> gpu_util;
  std::optional<double> gpu_mem_mb;
  double read_mb_s = 0;

  /// Returns the seconds of training: the epoch without validation and checkpoints.
  [[nodiscard]] double training_s() const;
};

/// The clock that times a phase: the host's or, on a GPU, the device's. A phase outside of steps is
/// timed by the host and does not count as training.
enum class PhaseKind { host, device, outside };

/// One line of timing_fields.def, which documents the members.
struct TimingPhase {
  const char* key;
  double Timing::*seconds;
  PhaseKind kind;
  const char* range;
  std::string_view column;
  std::string_view label;
  std::string_view brief;
  std::string_view help;
};

inline constexpr std::array kTimingPhases{
#define TIMING_PHASE(phase, member, kind, ...) \
  TimingPhase{#member, &Timing::member, PhaseKind::kind, __VA_ARGS__},
#include "events/timing_fields.def"
#undef TIMING_PHASE
};

inline double Timing::training_s() const {
  double seconds = wall_s;
  for (const TimingPhase& phase : kTimingPhases) {
    if (phase.kind == PhaseKind::outside) seconds -= this->*phase.seconds;
  }
  return seconds;
}

/// Returns the training samples per second of training time.
inline double training_rate(const Timing& timing) {
  const double seconds = timing.training_s();
  return seconds > 0 ? static_cast<double>(timing.samples) / seconds : 0;
}

/// Adds the wall time and the phases of `more`; other members are unchanged.
inline void add_times(Timing& sum, const Timing& more) {
  sum.wall_s += more.wall_s;
  for (const TimingPhase& phase : kTimingPhases) sum.*phase.seconds += more.*phase.seconds;
}

/// Resource usage of a rank and its machine in an epoch, in addition to Timing: rates, and shares
/// of `span_s` from 0 to 1. Absent if the kernel or the driver does not report it.
struct Usage {
  double span_s = 0;
  int cores = 0;                      // that the rank may use
  std::optional<double> cpu_stalled;  // some thread of the control group waited for a core
  std::optional<double> io_stalled;   // some thread waited for a disk
  std::optional<double> memory_stalled;
  std::optional<double> throttled;  // share of the periods in which the CPU quota was used up
  double major_faults_s = 0;        // page faults per second that were served from a disk
  double involuntary_switches_s = 0;
  int loader_threads = 0;
  std::optional<double> loader_cores;  // cores that the loader threads kept busy
  std::optional<double> memory_taken;  // share of the memory limit, at the end
  std::optional<double> gpu_power_w;
  std::optional<double> gpu_power_limit_w;
  std::optional<double> pcie_mb_s;  // sent and received
  std::string gpu_throttle;         // "power", "heat"; empty: no throttling
  /// Shares of the time of the cores that this rank may run on.
  std::optional<double> outside_cores;  // used by processes outside of the run
  std::optional<double> stolen_cores;   // used by other guests of the host (steal time)
  std::optional<double> idle_cores;
  /// Share of the time in which runnable threads of the rank waited for a core.
  std::optional<double> core_wait;
};

/// First event of a rank: the process has started and its libraries are loaded.
struct Hello {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;
  std::string device;                           // "cpu", "cuda:0"
  double startup_s = 0;                         // from execve() to this event
  std::map<std::string, std::string> versions;  // "torch": "2.11.0"
  std::string allocator;  // library that implements malloc: "system", "jemalloc"
};

/// Sent by rank 0 once the model and data are created.
struct RunStarted {
  int world_size = 1;
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t train_samples = 0;
  std::int64_t val_samples = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t max_epochs = 0;  // 0: not known in advance
  std::int64_t global_batch = 0;
  int num_workers = 0;
  int prefetch_factor = 0;
  std::string num_workers_why;   // "configured", "probe: a batch takes 71 ms to load, a step ..."
  double num_workers_taken = 0;  // share of the cores that others took during the choice
  int num_threads = 1;
  std::string num_threads_why;    // "configured", "probe: a step takes 1.70x as ..."
  double num_threads_taken = 0;   // share of the cores that others took during the choice
  bool channels_last = false;     // memory format of images
  std::string channels_last_why;  // "configured", "97 % of the operations are ..."
  bool recomputes = false;        // activation checkpointing
  std::string recomputes_why;     // "activations need about ..."; empty: requested by the user
  bool captures_steps = false;    // as CUDA graphs, unless the capture fails
  std::string task;               // "classification", also if the data set has decided
  std::string precision;
  std::string fp32_precision;      // "ieee", "tf32", "bf16": of float32 products and convolutions
  std::string fp32_precision_why;  // "trainer.float32_matmul_precision is high"
  bool benchmark = false;          // cuDNN measures its kernels
  std::string benchmark_why;       // "configured", "deterministic"
  std::string monitor;             // metric that decides which weights are best
  std::map<std::string, std::string> data_fingerprints;  // split -> hex
  std::string no_data_digest;  // why batches have no digest; empty: they have one
};

/// Sent by rank 0 before RunStarted if the model starts from a weights file or a part of it is
/// frozen: the origin of each tensor.
struct WeightsSet {
  std::string path;    // of the weights file; empty: all weights are initialized from the seed
  std::string format;  // "safetensors", "torch"
  std::vector<std::string> loaded;
  std::vector<std::string> reinitialized;  // last layer: the file has another number of outputs
  std::vector<std::string> missing;        // in the model only: initialized
  std::vector<std::string> ignored;        // in the file only
  std::vector<std::string> frozen;
  std::vector<std::string> notes;  // "'module.' was removed from the front of all names"
};

/// `load` is the time before the first batch of an epoch or of a validation.
enum class Phase { startup, train, validate, checkpoint, shutdown, load };

/// Sent a few times per second, for the progress bar.
struct Progress {
  Phase phase = Phase::train;
  std::int64_t epoch = 0;  // from 0
  std::int64_t step_in_epoch = 0;
  std::int64_t steps_in_epoch = 0;
  std::int64_t global_step = 0;
  std::optional<double> loss;
};

/// Sent every log_every_n_steps: one line of metrics.jsonl.
struct StepLogged {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  double loss = 0;
  double lr = 0;
  double elapsed_s = 0;
  std::optional<double> grad_norm;  // before clipping
  std::optional<double> param_norm;
};

/// Reports a validation within an epoch (trainer.val_check_interval), or the test after training
/// (trainer.test).
struct Validated {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  Metrics metrics;        // of this split only
  bool improved = false;  // the monitored value is the best so far
  std::string split = "val";
};

/// Reports the norm of each layer's gradient, before clipping, at a log point
/// (trainer.log_layer_norms).
struct LayerNorms {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  Metrics norms;  // by layer: "conv1"
};

/// Reports the distribution of a weight or a gradient, for TensorBoard.
struct Distribution : Histogram {
  std::int64_t global_step = 0;
  std::string tag;  // "weights/conv1.weight", "gradients/conv1.weight"
};

/// Reports the results of an epoch: one row of the epoch table.
struct EpochEnded {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  double lr = 0;  // of the last step
  Metrics metrics;
  Timing timing;
  std::string data_digest;  // of the training batches of all ranks; empty if not computed
  bool improved = false;
  std::optional<Usage> usage = {};  // absent in earlier versions, or if the epoch was too short
};

/// Sent by every rank of a distributed run at the end of an epoch (by rank 0 before its
/// EpochEnded): the time of its steps and its gradient exchange. Only the current process counts:
/// in a resumed epoch the steps since the restart. The own work and the times of the exchange are
/// NaN if steps were replayed from a CUDA graph that contains the exchange.
struct RankEpoch {
  int rank = 0;
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;  // at the end
  std::int64_t steps = 0;        // steps that exchanged gradients
  double wall_s = 0;             // of training, without validation and checkpoints
  double data_wait_s = 0;
  double step_s = 0;               // copy, forward, backward and optimizer: the rank's own work
  double allreduce_exposed_s = 0;  // waits for other ranks: for gradients and at the end of a step
  double overlapped_s = 0;         // exchange that overlapped with the backward pass
  double exposed_s = 0;            // exchange after the last gradient; part of allreduce_exposed_s
  double overlap = 0;              // overlapped_s / (overlapped_s + exposed_s); 0: no exchange
  std::int64_t payload_bytes = 0;  // size of the buckets of all steps, as sent
  std::int64_t wire_bytes = 0;     // that the rank sends: 2 (n-1)/n of the payload, as in a ring
  std::vector<std::int64_t> bucket_bytes;  // of one step, in the order of the exchange
};

/// A row of a metric that is a table.
struct TableRow {
  std::string metric;  // "val/confusion_matrix"
  std::int64_t epoch = 0;
  std::int64_t row = 0;
  std::vector<std::int64_t> counts;
};

/// Reports that a checkpoint or a weights file was written.
struct CheckpointSaved {
  std::string path;  // relative to the run folder
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  std::string metric;  // "val/loss"; empty without a metric
  double value = 0;
  bool verified = false;  // a checkpoint folder that was read back
  double exposed_s = 0;   // time that training waited
};

/// Sent by rank 0 after RunStarted if the run resumes from a checkpoint.
struct Resumed {
  std::string path;                // folder of the checkpoint
  std::int64_t epoch = 0;          // epoch that is continued
  std::int64_t step_in_epoch = 0;  // batches of that epoch that were already trained on
  std::int64_t global_step = 0;
  bool bitwise = true;  // all numbers are as in an uninterrupted run
  std::string why_not;  // "the world size was 2 and is 1"
};

/// Reports that a stopper ended the training.
struct StoppedEarly {
  std::int64_t epoch = 0;
  std::string reason;  // "val/loss has not improved for 3 epochs (best 0.0712 at epoch 4)"
};

/// A message of the engine, sent once: printed below the table and written to the log.
struct Warning {
  std::string message;
  std::string sample;  // "train/cat/3.jpg" for a damaged sample that was replaced; else empty
};

/// An int8 model next to the float32 model that it was made of.
struct Quantized {
  std::int64_t layers = 0;               // with int8 weights
  std::int64_t calibration_batches = 0;  // 0: no layer needed calibration
  Metrics float32_metrics;               // empty without labels
  std::int64_t float32_bytes = 0;        // size of the exported TorchScript file
  std::int64_t int8_bytes = 0;
  double float32_samples_per_s = 0;  // of forward passes, median of five turns
  double int8_samples_per_s = 0;
};

/// Sent by rank 0 at the end of an evaluation or prediction.
struct Evaluated {
  std::string split;       // "val"
  std::string checkpoint;  // weights file
  std::int64_t samples = 0;
  std::int64_t outputs = 0;         // outputs of the model per sample
  std::string targets;              // "classes", "numbers", "tokens"
  std::int64_t target_numbers = 0;  // per sample; 0: a class
  bool named = false;               // the samples have names
  bool labeled = true;              // the samples have labels, which were compared with the outputs
  Metrics metrics;                  // empty without labels; with `quantized`, of the int8 model
  double wall_s = 0;                // of the batches
  std::optional<Quantized> quantized;
};

/// The reason why a rank ends. Also written to logs/rank_N.error.json before the worker exits.
struct Failed {
  int rank = 0;
  int kind = 1;  // exit code of an ErrorKind
  std::string message;
  std::int64_t global_step = 0;
  Phase phase = Phase::startup;
};

/// A rank that failed, as the supervisor sees it; this is not an event.
struct RankFailure {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::optional<int> signal;     // set if a signal ended it
  std::string signal_name;       // "SIGKILL"
  std::optional<int> exit_code;  // set if it exited
  std::int64_t step = 0;         // from the shared page, which is valid even after SIGKILL
  std::string phase;             // "train"
  std::string collective = {};   // its last collective operation with other ranks; empty: none
  int kind = 7;                  // ErrorKind as exit code: the worker's report, or 7
  std::string message;           // the worker's message, or the supervisor's
  std::string log_tail;          // last lines of its log
};

/// Last event of a rank that ended normally.
struct Finished {
  std::int64_t epochs = 0;
  std::int64_t global_step = 0;
  std::string data_digest;       // of every training batch
  std::string parameter_digest;  // of the final parameters, to compare ranks and runs
  std::string stop_reason;       // "max_epochs", "early_stopping", "signal"
  /// Median time of forward and backward when the last batch is repeated after training, without a
  /// loader and waits.
  std::optional<double> replay_step_s = {};
  std::optional<std::int64_t> replay_steps = {};  // number of repetitions
  /// Median times with one setting changed; absent if not tried.
  std::optional<double> larger_batch_step_s = {};
  std::optional<std::int64_t> larger_batch = {};  // rows
  std::optional<double> other_threads_step_s = {};
  std::optional<int> other_threads = {};
  std::optional<double> bf16_step_s = {};  // with bf16-mixed
  /// How often the training thread waited for the GPU during training, by place; absent on a CPU.
  std::optional<std::map<std::string, std::int64_t>> host_waits = {};
};

/// Sent by a worker that measures instead of training: the cost of one training step of one
/// process. Bytes are those of the run's own batch on the compute device.
struct Measured {
  std::string device;       // "cpu", "cuda:0"
  std::string device_name;  // "NVIDIA H200"; empty for a CPU
  std::string precision;  // "32-true", "bf16-mixed", "16-mixed"; "tf32" if float32 products use it
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t weight_bytes = 0;  // parameters and buffers
  std::int64_t gradient_bytes = 0;
  std::int64_t optimizer_bytes = 0;   // state of the optimizer between steps
  std::int64_t average_bytes = 0;     // of trainer.ema or trainer.swa
  std::int64_t gpu_copy_bytes = 0;    // on a CPU: what the optimizer would also store on a GPU, to
                                      // skip steps; on a GPU it is in optimizer_bytes
  std::int64_t activation_bytes = 0;  // peak of a step in addition to all other parts
  std::int64_t batch_bytes = 0;
  std::int64_t kernel_bytes = 0;   // memory of allocators and kernels in addition to the tensors
  std::int64_t best_bytes = 0;     // best weights so far, on the host
  std::int64_t saved_bytes = 0;    // rank 0: host copy from which checkpoints are written
  std::int64_t process_bytes = 0;  // host memory of program and libraries before the model exists;
                                   // on a GPU also the memory of CUDA
  std::int64_t forward_flops = 0;  // per sample
  std::int64_t step_flops = 0;     // per sample; forward and backward
  std::int64_t batch_size = 0;
  std::vector<std::int64_t> measured_batches;  // bytes are extrapolated from these sizes
  std::vector<std::int64_t> parameter_bytes;   // gradients of trainable parameters, in their order
  std::optional<double> step_s;                // at measured_batches.back(); absent: not measured
  std::vector<double> step_rounds_s;           // mean step of each round; step_s is the median
  std::optional<double> exposed_s;             // part of step_s: waits for the gradient exchange
  int ranks = 1;                               // number of ranks in the timed steps
  std::optional<double> backward_s;  // part of step_s: timed on a CPU, from its operations on a GPU
  int num_threads = 0;               // during the measurement
  double taken_cores = 0;            // share of the cores that others took; 0: without effect
  bool recomputes = false;           // activation checkpointing
  std::string recomputes_why;        // empty: requested by the user
};

/// Sent by rank 0 of ranks that measure the link between them: the time of all-reduce.
struct LinkMeasured {
  std::string backend;      // "gloo", "nccl"
  std::string device;       // of rank 0: "cpu", "cuda:0"
  std::string device_name;  // "NVIDIA H200"; empty for a CPU
  int ranks = 2;
  std::vector<std::int64_t> bytes;    // size of the tensor that is summed, ascending
  std::vector<double> seconds;        // for each size: the median, averaged over the ranks
  std::vector<std::int64_t> repeats;  // for each size
};

/// Sent twice for each check of a device that is tested: when the check begins and when it ends.
struct GpuChecked {
  int rank = 0;         // tests the GPU with its number
  std::string check;    // "matmul bf16"
  bool done = false;    // false: the check begins, and only the members above are set
  std::string failure;  // empty: passed
  std::string found;    // "NVIDIA H200, compute capability 9.0"; empty for a check with a value
  std::optional<double> value;  // measured speed or time
  std::string unit;             // of the value: "TFLOP/s"
  std::string pci_bus = {};     // address of the GPU, "00000000:3b:00.0"; empty for a CPU
  std::optional<double> error;  // largest difference from the CPU's result, in units of the
                                // standard deviation of the results
};

/// Statistics of a tensor's values.
struct TensorSummary {
  std::string name;   // "gradient of fc1.weight", "layer3.1.conv2 (conv2d)"
  std::string dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  double min = 0;  // of the finite values, like max and mean; NaN if there are none
  double max = 0;
  double mean = 0;
};

/// Sent by a worker that repeats one step of a diverged run.
struct Replayed {
  int rank = 0;  // rank whose batch is repeated
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  std::int64_t batch = 0;  // index in the epoch
  std::int64_t rows = 0;
  std::string cause;  // "the training loss is not finite"
  double recorded_loss = 0;
  double loss = 0;
  std::string recorded_first;  // where the first non-finite value occurred; empty: nowhere
  std::string first;
  bool bitwise = false;                  // loss, outputs and gradients equal the recorded ones
  std::string why_not;                   // what differs; empty if not known
  std::vector<std::string> initialized;  // weights that the dump lacks
  std::string non_finite_after_step;     // a weight that an optimizer step would make non-finite
  std::vector<std::string> bad_rows;     // "row 3, train/cat/3.jpg: loss inf"
  std::vector<std::string> notes;
  std::vector<TensorSummary> layers;   // output of each operator of the forward pass, in order
  std::vector<TensorSummary> tensors;  // inputs, outputs, weights, gradients; non-finite ones first
};

using Event = std::variant<Hello, WeightsSet, RunStarted, Progress, StepLogged, EpochEnded,
                           TableRow, CheckpointSaved, StoppedEarly, Evaluated, Warning, Failed,
                           Finished, Measured, Resumed, Replayed, RankEpoch, LinkMeasured,
                           GpuChecked, Validated, LayerNorms, Distribution>;

}  // namespace trainctl::events
