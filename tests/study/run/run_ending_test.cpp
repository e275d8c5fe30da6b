#include "study/run/run_ending.hpp"

#include "checkpoint/saves.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <chrono>

using namespace trainctl;

TEST_CASE("earlier_wall_s: a killed run counts until its last checkpoint") {
  TempFolder run;
  put_text(run / "result.json", R"({"verdict": "unfinished", "wall_s": 10})");
  put_text(run / "metrics.jsonl", "{}\n");
  checkpoint::Store store(run / "checkpoints");
  saves::save(store, 10);
  const auto start = fs::last_write_time(run / "result.json");
  const auto set = [&](const fs::path& file, int seconds) {
    fs::last_write_time(file, start + std::chrono::seconds(seconds));
  };
  const fs::path manifest = run / "checkpoints" / saves::name_of(10) / "manifest";
  set(run / "metrics.jsonl", 5);
  set(manifest, 60);
  CHECK(study::earlier_wall_s(run.path()) == 70);
  set(manifest, -60);  // it belongs to an earlier start
  CHECK(study::earlier_wall_s(run.path()) == 15);
}
