#include "train/skipped_report.hpp"

#include <fmt/format.h>

namespace trainctl::train {

void SkippedReport::tell(const std::string& split, const data::Loader& loader,
                         const EventSink& emit) {
  for (const data::SkippedSample& sample : loader.skipped()) {
    if (!told_.insert(split + '\0' + sample.name).second) continue;
    emit(events::Warning{fmt::format("dataset.{}: another sample takes the place of {}: {}", split,
                                     sample.name, sample.reason)});
  }
}

}  // namespace trainctl::train
