#pragma once

#include "device/device.hpp"

#include <cstddef>
#include <memory>
#include <vector>

struct GraphRecording;

/// Replays on the CPU what a CUDA graph replays on a GPU: the operators of the captured work, on
/// the same memory and with the same other arguments, and none of its host code. A capture records
/// operators where they reach the device, after autograd, so those of a backward pass are included,
/// and so are the collectives of c10d. As with a graph, a capture changes no memory that existed
/// before and does not communicate, the memory that it allocates holds garbage until the first
/// replay, and random numbers are drawn by replays only. Code that reads or writes memory without
/// an operator is not recorded.
class RecordedGraph final : public trainctl::device::StepGraph {
 public:
  struct Counts {
    int warm_ups = 0;
    int records = 0;
    int replays = 0;
    int fails_at = -1;  // the number of the capture that fails
  };
  /// What happens if captured work reads a value on the host, which CUDA refuses. Layers check some
  /// values only on a CPU.
  enum class Reads { refused, allowed };

  explicit RecordedGraph(Counts& counts, Reads reads = Reads::refused);
  ~RecordedGraph() override;
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  void warm_up(const Work& work) override;
  std::size_t record(const Work& work) override;
  void replay(std::size_t graph) override;

 private:
  Counts& counts_;
  Reads reads_;
  std::vector<std::unique_ptr<GraphRecording>> graphs_;
};
