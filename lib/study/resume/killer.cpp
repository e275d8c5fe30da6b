#include "study/resume/killer.hpp"

#include <csignal>
#include <variant>

namespace trainctl::study {
namespace {

/// 0 where the event tells none.
std::int64_t step_of(const events::Event& event) {
  if (const auto* logged = std::get_if<events::StepLogged>(&event)) return logged->global_step;
  if (const auto* progress = std::get_if<events::Progress>(&event)) return progress->global_step;
  return 0;
}

}  // namespace

void Killer::on_event(int rank, const events::Event& event) {
  if (const auto* hello = std::get_if<events::Hello>(&event))
    processes_[rank] = static_cast<pid_t>(hello->pid);
  if (!fired_ && step_of(event) >= step_) fire();
}

void Killer::fire() {
  fired_ = true;
  for (const auto& [rank, process] : processes_) {
    if (process > 1 && (!rank_ || *rank_ == rank)) ::kill(process, SIGKILL);
  }
}

}  // namespace trainctl::study
