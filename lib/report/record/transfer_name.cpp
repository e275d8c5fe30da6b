#include "report/record/transfer_name.hpp"

#include <algorithm>
#include <cstddef>

namespace trainctl::report {
namespace {

bool trained_on_cpu(const RunFiles& run) {
  if (run.value("trainer.accelerator") == "cpu") return true;
  const Json& gpus = member(member(run.manifest, "machine"), "gpus");
  return gpus.is_array() && gpus.empty();
}

}  // namespace

const char* transfer_name(std::string_view device) { return device == "cpu" ? "convert" : "h2d"; }

const char* transfer_name(const RunRecord& record) {
  return transfer_name(record.hellos.empty() ? std::string_view()
                                             : record.hellos.begin()->second.device);
}

const char* transfer_name(std::span<const RunFiles* const> runs) {
  const auto on_cpu =
      std::ranges::count_if(runs, [](const RunFiles* run) { return trained_on_cpu(*run); });
  if (on_cpu == 0) return "copy to device";
  return on_cpu == static_cast<std::ptrdiff_t>(runs.size()) ? "convert batches" : "copy or convert";
}

}  // namespace trainctl::report
