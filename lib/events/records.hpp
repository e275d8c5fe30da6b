#pragma once

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

// What a worker tells the supervisor: the only thing that passes between the engine half and the
// front half. Plain values; times are seconds of the worker's steady clock.

namespace trainctl::events {

/// Metric values by full name, in the order in which tables show them: "train/loss", "val/loss",
/// "val/accuracy".
using Metrics = std::vector<std::pair<std::string, double>>;

inline std::optional<double> find_metric(const Metrics& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &Metrics::value_type::first);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

/// Where an epoch's wall time went, in seconds; the phases sum to wall_s within 2 %. One row of
/// timing.csv.
struct Timing {
  double wall_s = 0;
#define TIMING_PHASE(phase, member, ...) double member = 0;
#include "events/timing_fields.def"
#undef TIMING_PHASE
  std::int64_t samples = 0;
  double samples_per_s = 0;  // see training_rate()
  double first_batch_s = 0;  // start of the epoch to the first batch
  double cpu_percent = 0;    // of one core
  double rss_mb = 0;         // peak so far
  std::optional<double> gpu_util;
  std::optional<double> gpu_mem_mb;
  double read_mb_s = 0;

  /// Returns the seconds of training: those of the epoch without validation and checkpoints.
  [[nodiscard]] double training_s() const;
};

/// Which clock times a phase: the host's or, on a GPU, the device's. A phase outside of steps is
/// timed by the host and is no training.
enum class PhaseKind { host, device, outside };

/// One line of timing_fields.def, which explains the members.
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

/// Returns the training samples per second of training.
inline double training_rate(const Timing& timing) {
  const double seconds = timing.training_s();
  return seconds > 0 ? static_cast<double>(timing.samples) / seconds : 0;
}

/// Adds the wall time and the phases of `more`; the other members stay.
inline void add_times(Timing& sum, const Timing& more) {
  sum.wall_s += more.wall_s;
  for (const TimingPhase& phase : kTimingPhases) sum.*phase.seconds += more.*phase.seconds;
}

/// What a rank and its machine did in an epoch, beside where its time went: rates and shares of
/// `span_s`, 0 to 1. Absent where the kernel or the driver does not tell.
struct Usage {
  double span_s = 0;
  int cores = 0;                      // that the rank may use
  std::optional<double> cpu_stalled;  // some thread of the control group waited for a core
  std::optional<double> io_stalled;   // for a disk
  std::optional<double> memory_stalled;
  std::optional<double> throttled;  // of the periods of the CPU quota: it was used up
  double major_faults_s = 0;        // pages that came from a disk, a second
  double involuntary_switches_s = 0;
  int loader_threads = 0;
  std::optional<double> loader_cores;  // that they kept busy
  std::optional<double> memory_taken;  // of its limit, at the end
  std::optional<double> gpu_power_w;
  std::optional<double> gpu_power_limit_w;
  std::optional<double> pcie_mb_s;  // both ways
  std::string gpu_throttle;         // "power", "heat"; empty: its clocks were free
  /// Shares of the time of the cores that this rank may run on.
  std::optional<double> outside_cores;  // taken by processes outside of the run
  std::optional<double> stolen_cores;   // taken by other guests of the host (steal time)
  std::optional<double> idle_cores;
  /// Of the time in which threads of the rank were ready to run: no core was free for them.
  std::optional<double> core_wait;
};

/// First event of a rank: the process is up and its libraries are loaded.
struct Hello {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;
  std::string device;                           // "cpu", "cuda:0"
  double startup_s = 0;                         // from exec to here
  std::map<std::string, std::string> versions;  // "torch": "2.11.0"
  std::string allocator;                        // that answers malloc: "system", "jemalloc"
};

/// Rank 0, once the model and data are built.
struct RunStarted {
  int world_size = 1;
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t train_samples = 0;
  std::int64_t val_samples = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t max_epochs = 0;  // 0: not known beforehand
  std::int64_t global_batch = 0;
  int num_workers = 0;
  int prefetch_factor = 0;
  std::string
      num_workers_why;  // "asked", "probe: a batch takes 71 ms to make and a step 20 ms; ..."
  int num_threads = 1;
  std::string num_threads_why;    // "asked", "probe: 2 threads take 1.70x of 1"
  double num_threads_taken = 0;   // share of the cores that others took while it was chosen
  bool channels_last = false;     // the memory format of images
  std::string channels_last_why;  // "asked", "97 % of the operations are ..."
  bool recomputes = false;        // blocks, in the backward pass
  std::string recomputes_why;     // "activations take about ..."; empty: it was asked for
  std::string precision;
  std::string monitor;  // the metric that decides which weights are best
  std::map<std::string, std::string> data_fingerprints;  // split -> hex
  std::string no_data_digest;  // why batches get none; empty: they get one
};

/// Rank 0, once the model is built and before RunStarted, where it starts from a file or a part of
/// it is frozen: what became of each of its tensors.
struct WeightsSet {
  std::string path;    // of the file; empty: the seed drew all
  std::string format;  // "safetensors", "torch"
  std::vector<std::string> loaded;
  std::vector<std::string> redrawn;  // the last layer: the file has another number of outputs
  std::vector<std::string> missing;  // in the model only: drawn
  std::vector<std::string> ignored;  // in the file only
  std::vector<std::string> frozen;
  std::vector<std::string> notes;  // "'module.' was removed from the front of all names"
};

/// load: before the first batch of an epoch or of a validation.
enum class Phase { startup, train, validate, checkpoint, shutdown, load };

/// A few times a second, for the progress bar.
struct Progress {
  Phase phase = Phase::train;
  std::int64_t epoch = 0;  // from 0
  std::int64_t step_in_epoch = 0;
  std::int64_t steps_in_epoch = 0;
  std::int64_t global_step = 0;
  std::optional<double> loss;
};

/// Every log_every_n_steps: one line of metrics.jsonl.
struct StepLogged {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  double loss = 0;
  double lr = 0;
  double elapsed_s = 0;
  std::optional<double> grad_norm;  // before clipping
  std::optional<double> param_norm;
};

struct EpochEnded {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  double lr = 0;  // the rate of the epoch's last step
  Metrics metrics;
  Timing timing;
  std::string data_digest;  // of the training batches of this rank's world; empty if not computed
  bool improved = false;
  std::optional<Usage> usage = {};  // absent: of an earlier version, or the epoch was too short
};

/// Every rank of several, at the end of an epoch (rank 0: before its EpochEnded): where the time of
/// its steps went, and what it exchanged of gradients. Of this process alone: an epoch that goes on
/// counts the steps from there.
struct RankEpoch {
  int rank = 0;
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;  // at its end
  std::int64_t steps = 0;        // that exchanged gradients
  double wall_s = 0;             // of the training: without validation and saving
  double data_wait_s = 0;
  double step_s = 0;               // copy, forward, backward and update: the rank's own work
  double allreduce_exposed_s = 0;  // waits for other ranks, of gradients and at the end of a step
  double overlapped_s = 0;         // the exchange ran beside the backward pass
  double exposed_s = 0;            // it went on after the last gradient; in allreduce_exposed_s
  double overlap = 0;              // overlapped_s of both; 0: nothing was exchanged
  std::int64_t payload_bytes = 0;  // of the buckets of all steps, as they are sent
  std::int64_t wire_bytes = 0;  // that the rank sends of them: 2 (n-1)/n, as a ring of n ranks does
  std::vector<std::int64_t> bucket_bytes;  // of one step, in the order of the exchange
};

/// A row of a metric that is a table.
struct TableRow {
  std::string metric;  // "val/confusion_matrix"
  std::int64_t epoch = 0;
  std::int64_t row = 0;
  std::vector<std::int64_t> counts;
};

struct CheckpointSaved {
  std::string path;  // relative to the run folder
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  std::string metric;  // "val/loss"; empty if it was not about a metric
  double value = 0;
  bool verified = false;  // a checkpoint's folder, which was read back
  double exposed_s = 0;   // that the training waited for it
};

/// Rank 0, after RunStarted, where the run goes on from a checkpoint.
struct Resumed {
  std::string path;                // its folder
  std::int64_t epoch = 0;          // with which it goes on
  std::int64_t step_in_epoch = 0;  // batches of that epoch that were trained on
  std::int64_t global_step = 0;
  bool bitwise = true;  // every number is as if the run had never stopped
  std::string why_not;  // "the world size was 2 and is 1"
};

struct StoppedEarly {
  std::int64_t epoch = 0;
  std::string reason;  // "val/loss has not improved for 3 epochs (best 0.0712 at epoch 4)"
};

/// Said aloud by the engine, once: printed under the table, kept in the log.
struct Warning {
  std::string message;
  std::string sample;  // "train/cat/3.jpg": it is damaged, and another takes its place; else empty
};

/// Rank 0, at the end of an evaluation or of predictions.
struct Evaluated {
  std::string split;       // "val"
  std::string checkpoint;  // the file of weights
  std::int64_t samples = 0;
  std::int64_t outputs = 0;         // of the model, for each sample
  std::string targets;              // "classes", "numbers", "tokens"
  std::int64_t target_numbers = 0;  // of a sample; 0: its class
  bool named = false;               // the samples have names of their own
  bool labeled = true;              // and labels that were compared with the outputs
  Metrics metrics;                  // none without labels
  double wall_s = 0;                // of the batches
};

/// The rank ends because of this; also written to logs/rank_N.error.json before the worker exits.
struct Failed {
  int rank = 0;
  int kind = 1;  // ErrorKind as its exit code
  std::string message;
  std::int64_t global_step = 0;
  Phase phase = Phase::startup;
};

/// Last event of a rank that ended by itself.
struct Finished {
  std::int64_t epochs = 0;
  std::int64_t global_step = 0;
  std::string data_digest;       // of every training batch
  std::string parameter_digest;  // of the final parameters, to compare ranks and runs
  std::string stop_reason;       // "max_epochs", "early_stopping", "signal"
  /// Forward and backward of the last batch again and again, when all was over: of one of them.
  /// With no loader beside it and no wait.
  std::optional<double> replay_step_s = {};
  std::optional<std::int64_t> replay_steps = {};  // that this is the median of
  /// Forward and backward replayed with one setting changed; absent where it was not tried.
  std::optional<double> larger_batch_step_s = {};
  std::optional<std::int64_t> larger_batch = {};  // rows
  std::optional<double> other_threads_step_s = {};
  std::optional<int> other_threads = {};
  std::optional<double> bf16_step_s = {};  // under bf16-mixed
};

/// Of a worker that measures in place of training: what one training step of one process takes.
/// Bytes are those of the run's own batch, on the device that computes.
struct Measured {
  std::string device;       // "cpu", "cuda:0"
  std::string device_name;  // "NVIDIA H200"; empty: a CPU
  std::string precision;    // "32-true", "bf16-mixed", "16-mixed"; "tf32" where products are so
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t weight_bytes = 0;  // parameters and buffers
  std::int64_t gradient_bytes = 0;
  std::int64_t optimizer_bytes = 0;  // what it keeps from step to step
  std::int64_t average_bytes = 0;    // of trainer.ema or trainer.swa
  std::int64_t gpu_copy_bytes = 0;   // of a CPU: what the optimizer would keep on a GPU besides, to
                                     // leave steps out; on a GPU it is in optimizer_bytes
  std::int64_t activation_bytes = 0;  // the peak of a step beyond all other parts
  std::int64_t batch_bytes = 0;
  std::int64_t kernel_bytes = 0;   // what allocators and kernels take beyond the tensors
  std::int64_t best_bytes = 0;     // the best weights so far, on the host
  std::int64_t saved_bytes = 0;    // of rank 0: the copy on the host that checkpoints are made of
  std::int64_t process_bytes = 0;  // of the host: program and libraries, before there is a model;
                                   // on a GPU all that CUDA and its libraries take there, too
  std::int64_t forward_flops = 0;  // a sample
  std::int64_t step_flops = 0;     // a sample; forward and backward
  std::int64_t batch_size = 0;
  std::vector<std::int64_t> measured_batches;  // without batch_size: the bytes are extrapolated
  std::vector<std::int64_t> parameter_bytes;  // gradients of those that are trained, in their order
  std::optional<double> step_s;       // of a step with the last of them; absent: not asked for
  std::vector<double> step_rounds_s;  // the mean step of each round, whose median is step_s
  std::optional<double> exposed_s;    // of step_s: waits for the exchange of several ranks
  int ranks = 1;                      // that took the timed steps together
  std::optional<double> backward_s;   // of it: timed on a CPU, by its operations on a GPU
  int num_threads = 0;                // that it was timed with
  double taken_cores = 0;             // share that others took meanwhile; 0: nothing was held up
  bool recomputes = false;            // blocks, in the backward pass
  std::string recomputes_why;         // empty: it was asked for
};

/// Rank 0 of ranks that measure the link between them: what sums over all of them took.
struct LinkMeasured {
  std::string backend;      // "gloo", "nccl"
  std::string device;       // of rank 0: "cpu", "cuda:0"
  std::string device_name;  // "NVIDIA H200"; empty: a CPU
  int ranks = 2;
  std::vector<std::int64_t> bytes;    // of the tensor that is summed, ascending
  std::vector<double> seconds;        // for each of them: the median, as the mean over the ranks
  std::vector<std::int64_t> repeats;  // for each of them
};

/// What the values of a tensor are like.
struct TensorSummary {
  std::string name;   // "gradient of fc1.weight", "layer3.1.conv2 (conv2d)"
  std::string dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  double min = 0;  // of the finite values, as max and mean; NaN where there are none
  double max = 0;
  double mean = 0;
};

/// Of a worker that repeats one step of a run that has diverged.
struct Replayed {
  int rank = 0;  // whose batch it was
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  std::int64_t batch = 0;  // of the epoch
  std::int64_t rows = 0;
  std::string cause;  // "the training loss is not finite"
  double recorded_loss = 0;
  double loss = 0;
  std::string recorded_first;  // where the first value came up that was not finite; empty: nowhere
  std::string first;
  bool bitwise = false;               // loss, outputs and gradients are those of the record
  std::string why_not;                // what is not as it was; empty where nothing is known of
  std::vector<std::string> drawn;     // weights that the dump does not have in that form
  std::string spoilt;                 // a weight that an optimizer step would leave not finite
  std::vector<std::string> bad_rows;  // "row 3, train/cat/3.jpg: loss inf"
  std::vector<std::string> notes;
  std::vector<TensorSummary> layers;   // what each operator of the forward pass gave, in order
  std::vector<TensorSummary> tensors;  // inputs, outputs, weights, gradients; the bad ones first
};

using Event = std::variant<Hello, WeightsSet, RunStarted, Progress, StepLogged, EpochEnded,
                           TableRow, CheckpointSaved, StoppedEarly, Evaluated, Warning, Failed,
                           Finished, Measured, Resumed, Replayed, RankEpoch, LinkMeasured>;

}  // namespace trainctl::events
