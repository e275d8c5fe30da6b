#include "study/run_folder.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace trainctl;
using namespace trainctl::study;

TEST_CASE("runs of the same second get folders of their own and latest points at the last") {
  const TempFolder root;
  std::vector<fs::path> folders;
  for (int i = 0; i < 20; ++i) {
    folders.push_back(
        make_run_folder({.name = "mnist ffn/1", .root = root.path(), .fixed = {}}).path);
  }
  CHECK(std::set(folders.begin(), folders.end()).size() == 20);
  CHECK(std::ranges::is_sorted(folders));  // the newest run is found by its name
  const fs::path& last = folders.back();
  CHECK(last.parent_path() == root / "mnist-ffn-1");
  CHECK(fs::canonical(root / "mnist-ffn-1/latest") == fs::canonical(last));
}

TEST_CASE("a fixed folder is made, and refused when something lies in it") {
  const TempFolder root;
  const FolderRequest request{.name = "x", .root = root.path(), .fixed = root / "a/b"};
  CHECK(make_run_folder(request).path == root / "a/b");
  CHECK(make_run_folder(request).path == root / "a/b");
  write_atomically(root / "a/b/result.json", "{}");
  try {
    make_run_folder(request);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK_THAT(error.what(), Contains("is not empty") && Contains("--run-dir"));
  }
}

TEST_CASE("a fixed folder belongs to one run at a time, and the other is told whose it is") {
  const TempFolder root;
  const FolderRequest request{.name = "x", .root = root.path(), .fixed = root / "a"};
  {
    const RunFolder held = make_run_folder(request);
    try {
      make_run_folder(request);
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.exit_code() == 11);
      CHECK_THAT(error.what(),
                 Contains("in use by pid " + std::to_string(::getpid())) && Contains("--run-dir"));
    }
  }
  CHECK(fs::is_empty(root / "a"));
  CHECK(make_run_folder(request).path == root / "a");
}

TEST_CASE("a root that cannot hold folders is a resource error that names it") {
  const TempFolder root;
  write_atomically(root / "file", "x");
  try {
    make_run_folder({.name = "x", .root = root / "file", .fixed = {}});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 11);
    CHECK_THAT(error.what(), Contains("file"));
  }
}

TEST_CASE("no experiment name leaves the root") {
  CHECK(folder_name("..") == "experiment");
  CHECK(folder_name("../../etc") == "..-..-etc");
  CHECK(folder_name("mnist-ffn_1.2") == "mnist-ffn_1.2");
}
