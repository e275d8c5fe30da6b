#pragma once

#include "spec/experiment/enums.hpp"
#include "spec/scheduler/schedule.hpp"

#include <array>
#include <string>

namespace trainctl::spec::scheduler {

enum class ThresholdMode { rel, abs };
constexpr std::array<const char*, 2> enum_names(ThresholdMode) { return {"rel", "abs"}; }

struct ReduceLrOnPlateau : Warmup {
  static constexpr auto kSummary =
      "Lowers the rate when the monitored value stops improving, as torch's ReduceLROnPlateau.";

  std::string monitor = "val/loss";
  config::Auto<Mode> mode;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;

  static void describe(config::Describe<ReduceLrOnPlateau>& options) {
    options.field("monitor", &ReduceLrOnPlateau::monitor, "The value that is watched.");
    options.field("mode", &ReduceLrOnPlateau::mode,
                  "min: lower is better; max: higher; auto: by the name.");
    options.field("factor", &ReduceLrOnPlateau::factor, "Factor of each drop.").above(0).below(1);
    options
        .field("patience", &ReduceLrOnPlateau::patience,
               "Epochs without improvement before a drop.")
        .at_least(0);
    options.field("threshold", &ReduceLrOnPlateau::threshold, "Smallest change that counts.")
        .at_least(0);
    options.field("threshold_mode", &ReduceLrOnPlateau::threshold_mode,
                  "rel: relative to the best; abs: absolute.");
    options.field("cooldown", &ReduceLrOnPlateau::cooldown, "Epochs to wait after a drop.")
        .at_least(0);
    options.field("min_lr", &ReduceLrOnPlateau::min_lr, "The lowest rate.").at_least(0);
    options.field("eps", &ReduceLrOnPlateau::eps, "Smaller drops are not made.").at_least(0);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
