#include "train/loop/skipped_report.hpp"

#include "base/strings.hpp"
#include "log/log.hpp"

#include <fmt/format.h>

namespace trainctl::train {

void SkippedReport::tell(const std::string& split, const data::Loader& loader,
                         const EventSink& emit) {
  for (const data::SkippedSample& sample : loader.skipped()) {
    if (!told_.insert(split + '\0' + sample.name).second) continue;
    const std::string text = fmt::format("dataset.{}: another sample takes the place of {}: {}",
                                         split, sample.name, sample.reason);
    log::get().warn("{}", printable(text));  // the rank's log, which stays in the run folder
    emit(events::Warning{text, split + "/" + sample.name});
  }
}

}  // namespace trainctl::train
