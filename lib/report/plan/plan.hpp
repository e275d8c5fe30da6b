#pragma once

#include "report/plan/multi_rank_plan.hpp"

namespace trainctl::report {

/// The memory of one split in one process, in bytes.
struct PlannedSplit {
  std::string name;     // "train"
  std::string dataset;  // "image_folder"
  std::int64_t samples = 0;
  std::uint64_t dataset_bytes = 0;
  std::uint64_t mapped_bytes = 0;  // mapped files; processes share the pages
  std::string cache;               // "none", "encoded", "decoded", "device"
  std::uint64_t cache_bytes = 0;   // in host memory
  std::uint64_t device_bytes = 0;  // in GPU memory: cached images
  int slots = 0;                   // slots of the ring, one batch each
  std::uint64_t slot_bytes = 0;
  std::uint64_t order_bytes = 0;
  int threads = 1;
  std::uint64_t scratch_bytes = 0;   // of one thread
  std::uint64_t ahead_bytes = 0;     // samples read in advance
  std::uint64_t transfer_bytes = 0;  // blocks of a remote data set in transfer

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

/// The measured speed of making batches on this machine, and the choices of `auto` from it.
struct PlannedProbe {
  struct Workers {
    double least_step_s = 0;  // while steps take at least this many seconds
    int number = 0;
  };
  double batch_s = 0;  // on one thread
  int prefetch_factor = 0;
  std::vector<Workers> workers;  // from long to short steps; empty: the number is given
  double spread = 1;             // 99th percentile of the batch times / mean
  double taken_cores = 0;        // fraction of the cores that others used meanwhile
};

/// The resources that a run would need on this machine.
struct Plan {
  std::string config;
  std::string device = "cpu";
  int ranks = 1;       // of all nodes
  int ranks_here = 1;  // on this machine, sharing its memory and cores
  int cores = 1;       // of the machine
  std::int64_t batch_size = 0;
  std::int64_t accumulate = 1;         // batches per step
  std::int64_t epoch_samples = 0;      // samples drawn per training epoch
  std::int64_t batches_per_epoch = 0;  // per rank
  std::int64_t steps_per_epoch = 0;    // optimizer steps; fewer with accumulation
  std::optional<std::int64_t> epochs;  // absent: only limited by time
  std::optional<std::int64_t> steps;   // optimizer steps in total; the last epoch may be partial
  bool auto_workers = false;
  int workers = 0;  // with auto_workers the maximum
  bool auto_prefetch = false;
  int prefetch_factor = 0;
  std::optional<PlannedProbe> probe;
  std::uint64_t available_bytes = 0;
  std::uint64_t cache_budget = 0;  // of all ranks on the machine
  std::vector<PlannedSplit> splits;
  std::vector<std::string> shrunk;  // "train: ...", deviations from the request
  std::string refusal;              // why a run would not start; empty: it would
  std::string refused_here;         // the same for a run on another machine: a note
  bool recomputes = false;          // activation checkpointing recomputes activations
  /// Why steps are not captured as CUDA graphs, as far as the file shows; empty: they are captured;
  /// nullopt: the run is on CPUs.
  std::optional<std::string> no_graphs;
  std::optional<events::Measured> model;
  std::string no_model;                   // why it was not measured
  std::optional<PlannedScaling> scaling;  // --devices
  std::string scaling_unavailable;        // why it is missing although it was requested
  std::optional<FakeRanks> fake;          // --fake-ranks

  [[nodiscard]] std::uint64_t rank_bytes() const;
  [[nodiscard]] std::uint64_t node_bytes()
      const;  // of all ranks on the machine, without mapped files
  /// Returns the same plus the model's host memory, if it was measured.
  [[nodiscard]] std::uint64_t all_bytes() const;
};

/// Returns "fits", "shrinks", "exceeds" (more than is available, although each part keeps to its
/// limit) or "refused".
const char* verdict_of(const Plan& plan);
/// Returns a warning with its newline if other processes used the cores during a measurement; else
/// empty.
std::string contention_warning(const Plan& plan);
/// Returns the text for a terminal: what is planned, the memory table, what it means.
std::string plan_text(const Plan& plan, const Style& style);
/// Returns a document with schema "trainctl.plan/2".
Json plan_document(const Plan& plan);

}  // namespace trainctl::report
