#pragma once

#include "report/html/html.hpp"
#include "report/html/run_page.hpp"

// The sections of a run's page. Each is empty where the run told nothing of it.

namespace trainctl::report {

Html ending_section(const RunFiles& run);
Html time_section(const RunFiles& run);
Html steps_section(const RunFiles& run);
Html confusion_section(const RunFiles& run, const RunPageExtras& extras);
Html worst_section(const RunPageExtras& extras);
Html ranks_section(const RunFiles& run);
Html epochs_section(const RunFiles& run);
Html checkpoints_section(const RunFiles& run);
Html config_section(const RunFiles& run);
Html manifest_section(const RunFiles& run);

}  // namespace trainctl::report
