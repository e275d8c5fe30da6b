#include "study/folder/run_folder.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace trainctl::study {
namespace {

void create_file(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "x";
}

}  // namespace

TEST_CASE("remove_unfinished: removes unfinished files of exited workers only") {
  const TempFolder run;
  const std::string own = std::to_string(::getpid());
  const std::vector<std::string> unfinished{
      "checkpoints/epoch=0001-step=000056/.rank_0.part.tmp.99",
      "checkpoints/epoch=0001-step=000056/rank_1.part", "checkpoints/epoch=0001-step=000056",
      "checkpoints/.best.safetensors.tmp.99"};
  const std::vector<std::string> kept{"checkpoints/epoch=0001-step=000030/manifest",
                                      "checkpoints/epoch=0001-step=000030/rank_0.part",
                                      "checkpoints/best.safetensors",
                                      ".result.json.reserved." + own, ".result.json.tmp." + own};
  create_file(run / unfinished[0]);
  create_file(run / unfinished[1]);
  create_file(run / unfinished[3]);
  for (const std::string& name : kept) create_file(run / name);
  remove_unfinished(run.path());
  const auto exists = [&](const std::string& name) { return fs::exists(run / name); };
  CHECK(std::ranges::none_of(unfinished, exists));
  CHECK(std::ranges::all_of(kept, exists));
}

TEST_CASE("remove_unfinished: an empty folder is accepted") {
  const TempFolder run;
  CHECK_NOTHROW(remove_unfinished(run.path()));
  CHECK(fs::is_empty(run.path()));
}

}  // namespace trainctl::study
