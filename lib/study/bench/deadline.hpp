#pragma once

#include "study/run/run.hpp"

#include <memory>
#include <optional>

namespace trainctl::study {

/// Ends a run that is still going on at a time of the clock: its processes are killed.
class Deadline {
 public:
  /// Without a time the run takes as long as it takes.
  explicit Deadline(std::optional<double> at) : at_(at) {}

  /// The listener of a run that watches the time.
  [[nodiscard]] Sinks sinks() const;
  /// Whether it has ended the run.
  [[nodiscard]] bool has_struck() const { return *struck_; }

 private:
  std::optional<double> at_;
  std::shared_ptr<bool> struck_ = std::make_shared<bool>(false);
};

}  // namespace trainctl::study
