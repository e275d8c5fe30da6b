#include "spec/options/scheduler.hpp"
#include "stages/builtin.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::stages {
namespace {

using spec::scheduler::Interval;

/// One of the schedulers and its start.
struct Section {
  std::int64_t epoch;
  std::int64_t step;
  std::int64_t epoch_before;  // of the step before the start
  std::unique_ptr<stage::Scheduler> scheduler;
};

class SequentialLr final : public stage::Scheduler {
 public:
  SequentialLr(std::vector<Section> sections, Interval interval)
      : sections_(std::move(sections)), interval_(interval) {}

  [[nodiscard]] double lr(std::int64_t epoch, std::int64_t global_step) const override {
    const Section& section = at(epoch, global_step);
    return section.scheduler->lr(epoch - section.epoch, global_step - section.step);
  }
  [[nodiscard]] std::optional<double> momentum(std::int64_t epoch,
                                               std::int64_t global_step) const override {
    std::optional<double> found;
    // A momentum that a section has set stays in later ones.
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      const Section& section = sections_[i];
      if (!has_begun(section, epoch, global_step)) break;
      const Section* next = i + 1 < sections_.size() ? &sections_[i + 1] : nullptr;
      const bool is_over = next != nullptr && has_begun(*next, epoch, global_step);
      const std::int64_t last_epoch = is_over ? next->epoch_before : epoch;
      const std::int64_t last_step = is_over ? next->step - 1 : global_step;
      const auto value =
          section.scheduler->momentum(last_epoch - section.epoch, last_step - section.step);
      if (value) found = value;
    }
    return found;
  }
  [[nodiscard]] bool cycles_momentum() const override {
    return std::ranges::any_of(
        sections_, [](const Section& section) { return section.scheduler->cycles_momentum(); });
  }
  void observe(std::int64_t, double) override {}
  [[nodiscard]] std::string monitor() const override { return {}; }
  void serialize(StateArchive& archive) override {
    for (std::size_t i = 0; i < sections_.size(); ++i)
      archive.group(std::to_string(i), [&] { sections_[i].scheduler->serialize(archive); });
  }

 private:
  [[nodiscard]] const Section& at(std::int64_t epoch, std::int64_t global_step) const {
    std::size_t i = sections_.size() - 1;
    while (i > 0 && !has_begun(sections_[i], epoch, global_step)) --i;
    return sections_[i];
  }
  [[nodiscard]] bool has_begun(const Section& section, std::int64_t epoch,
                               std::int64_t global_step) const {
    return interval_ == Interval::epoch ? epoch >= section.epoch : global_step >= section.step;
  }

  std::vector<Section> sections_;
  Interval interval_;
};

/// Returns the part of the run that a section covers: up to the next section, or to the end.
stage::SchedulerContext context_of(const stage::SchedulerContext& run, const Section& begin,
                                   const Section* next) {
  stage::SchedulerContext context = run;
  const std::int64_t steps = run.steps_per_epoch;
  if (run.max_epochs > 0) context.max_epochs = run.max_epochs - begin.epoch;
  if (run.max_steps) context.max_steps = *run.max_steps - begin.step;
  if (next == nullptr) return context;
  const std::int64_t length = next->step - begin.step;
  context.max_epochs = (length + steps - 1) / steps;
  context.max_steps = length;
  return context;
}

std::vector<Section> sections_of(const spec::scheduler::SequentialLr& options,
                                 const stage::SchedulerContext& context) {
  std::vector<Section> sections;
  sections.push_back({0, 0, 0, nullptr});
  for (const std::int64_t milestone : options.milestones) {
    const bool by_epoch = options.interval == Interval::epoch;
    const std::int64_t per_epoch = std::max<std::int64_t>(context.steps_per_epoch, 1);
    const std::int64_t epoch = by_epoch ? milestone : milestone / per_epoch;
    const std::int64_t step = by_epoch ? milestone * per_epoch : milestone;
    ENSURE(config, step > sections.back().step,
           "milestones must be ascending and start from 1 or more, got [{}]",
           fmt::join(options.milestones, ", "));
    sections.push_back({epoch, step, (step - 1) / per_epoch, nullptr});
  }
  return sections;
}

}  // namespace

void register_scheduler_sequential_lr(stage::Catalog& catalog) {
  catalog.schedulers.add<spec::scheduler::SequentialLr>(
      "sequential_lr", [](const auto& options, const auto& context, const auto& schedulers) {
        ENSURE(config, options.milestones.size() + 1 == options.schedulers.size(),
               "{} schedulers need {} milestones, got {}", options.schedulers.size(),
               options.schedulers.size() - 1, options.milestones.size());
        std::vector<Section> sections = sections_of(options, context);
        for (std::size_t i = 0; i < sections.size(); ++i) {
          const Section* next = i + 1 < sections.size() ? &sections[i + 1] : nullptr;
          sections[i].scheduler =
              schedulers.build(options.schedulers[i], context_of(context, sections[i], next));
          ENSURE(config, sections[i].scheduler->monitor().empty(),
                 "schedulers.{}: '{}' monitors a value, so it cannot be part of a sequence", i,
                 options.schedulers[i].type);
        }
        return std::make_unique<SequentialLr>(std::move(sections), options.interval);
      });
}

}  // namespace trainctl::stages
