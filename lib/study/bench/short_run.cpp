#include "study/bench/short_run.hpp"

#include <fmt/format.h>

namespace trainctl::study {

std::vector<std::string> short_run(int steps) {
  return {"++early_stopping=~",
          "++metrics=[]",
          "++dataset.val=~",
          "++profiler=~",
          "++checkpoint={monitor: train/loss, save_top_k: 0, save_last: false}",
          "++trainer.max_epochs=~",
          "++trainer.max_time=~",
          fmt::format("++trainer.max_steps={}", steps),
          "++trainer.log_every_n_steps=1",
          "++trainer.log_norms=false",
          "++trainer.num_sanity_val_steps=0",
          "++trainer.fast_dev_run=false",
          "++trainer.on_divergence=[]",
          "++trainer.max_restarts=0",
          "++trainer.ema=~",
          "++trainer.swa=~"};
}

}  // namespace trainctl::study
