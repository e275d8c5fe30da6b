#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/plan/multi_rank_plan.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// The memory of one split in one process, in bytes.
struct PlannedSplit {
  std::string name;     // "train"
  std::string dataset;  // "image_folder"
  std::int64_t samples = 0;
  std::uint64_t dataset_bytes = 0;
  std::uint64_t mapped_bytes = 0;  // of files; processes share the pages
  std::string cache;               // "none", "encoded", "decoded", "device"
  std::uint64_t cache_bytes = 0;   // of the host's memory
  std::uint64_t device_bytes = 0;  // of the GPU's: the images that it keeps
  int slots = 0;                   // of the ring, one batch each
  std::uint64_t slot_bytes = 0;
  std::uint64_t order_bytes = 0;
  int threads = 1;
  std::uint64_t scratch_bytes = 0;   // of one thread
  std::uint64_t ahead_bytes = 0;     // samples read before their turn
  std::uint64_t transfer_bytes = 0;  // blocks of a remote data set on their way

  [[nodiscard]] std::uint64_t ring_bytes() const {
    return static_cast<std::uint64_t>(slots) * slot_bytes;
  }
  [[nodiscard]] std::uint64_t all_scratch_bytes() const {
    return static_cast<std::uint64_t>(threads) * scratch_bytes;
  }
  [[nodiscard]] std::uint64_t total() const {
    return dataset_bytes + cache_bytes + ring_bytes() + order_bytes + all_scratch_bytes() +
           ahead_bytes + transfer_bytes;
  }
};

/// What making batches took on this machine, and what `auto` makes of it.
struct PlannedProbe {
  struct Workers {
    double least_step_s = 0;  // beside steps of so many seconds or longer
    int number = 0;
  };
  double batch_s = 0;  // on one thread
  int prefetch_factor = 0;
  std::vector<Workers> workers;  // from long steps to short ones; empty where they are asked for
  double spread = 1;             // 99th percentile of the batches over their mean
  double taken_cores = 0;        // share of the cores that others took meanwhile
};

/// What a run would take on this machine.
struct Plan {
  std::string config;
  std::string device = "cpu";
  int ranks = 1;       // of all nodes
  int ranks_here = 1;  // of this machine, whose memory and cores they share
  int cores = 1;       // of the machine
  std::int64_t batch_size = 0;
  std::int64_t accumulate = 1;         // batches of a step
  std::int64_t epoch_samples = 0;      // that are drawn for an epoch of training
  std::int64_t batches_per_epoch = 0;  // of one rank
  std::int64_t steps_per_epoch = 0;    // of the optimizer: fewer with accumulation
  std::optional<std::int64_t> epochs;  // nothing where only time bounds them
  std::optional<std::int64_t> steps;   // of the optimizer in all; the last epoch may be cut short
  bool auto_workers = false;
  int workers = 0;  // with auto_workers the most that may be taken
  bool auto_prefetch = false;
  int prefetch_factor = 0;
  std::optional<PlannedProbe> probe;
  std::uint64_t available_bytes = 0;
  std::uint64_t cache_budget = 0;  // of all ranks of the machine
  std::vector<PlannedSplit> splits;
  std::vector<std::string> shrunk;  // "train: ...", what is not as asked for, or could be
  std::string refusal;              // empty: a run would start
  std::string refused_here;         // the same, where the run is for another machine: a note
  bool recomputes = false;          // checkpointed activations, in the backward pass
  std::optional<events::Measured> model;
  std::string no_model;                   // why it was not measured
  std::optional<PlannedScaling> scaling;  // --devices
  std::string no_scaling;                 // why there is none, though it was asked for
  std::optional<FakeRanks> fake;          // --fake-ranks

  [[nodiscard]] std::uint64_t rank_bytes() const;
  [[nodiscard]] std::uint64_t node_bytes()
      const;  // all ranks of the machine; mapped files left out
  /// The same with the memory of the host that the model takes, where it was measured.
  [[nodiscard]] std::uint64_t all_bytes() const;
};

/// "fits", "shrinks", "exceeds" (more than is available, though each part keeps to its limit) or
/// "refused".
const char* verdict_of(const Plan& plan);
/// A warning, with its newline, where other processes took the cores while something was timed;
/// empty: none did.
std::string contention_warning(const Plan& plan);
/// For a terminal: what is planned, the table of the memory, what it means.
std::string plan_text(const Plan& plan, const Style& style);
/// Schema "trainctl.plan/1".
Json plan_document(const Plan& plan);

}  // namespace trainctl::report
