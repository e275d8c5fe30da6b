#pragma once

#include "data/loader/loader.hpp"
#include "train/loop/session.hpp"

#include <set>
#include <string>

namespace trainctl::train {

/// Names each damaged sample that a loader replaced (dataset.on_error: skip), once a run, as a
/// warning.
class SkippedReport {
 public:
  void tell(const std::string& split, const data::Loader& loader, const EventSink& emit);

 private:
  std::set<std::string> told_;
};

}  // namespace trainctl::train
