#include "study/run/run_start.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <string>

using namespace trainctl;
using study::plugin_files;

TEST_CASE("plug-in files: each build has its own digest") {
  const TempFolder folder;
  const fs::path good = fs::path(TRAINCTL_FAKE_PLUGINS) / "libfake_good.so";
  const fs::path library = folder / "libfake_copy.so";
  fs::copy_file(good, library);
  const Json files = plugin_files({good, library});
  REQUIRE(files.size() == 2);
  CHECK(files[0]["path"] == good.string());
  CHECK(files[0]["digest"].get<std::string>().size() == 16);
  CHECK(files[0]["engine"].is_null());
  CHECK(files[1]["digest"] == files[0]["digest"]);
  std::ofstream(library, std::ios::app) << "another build";
  CHECK(plugin_files({library})[0]["digest"] != files[0]["digest"]);
  CHECK(plugin_files({}) == Json::array());
  CHECK_THROWS_WITH(plugin_files({folder / "gone.so"}), Contains("gone.so"));
}
