#include "study/folder/run_folder.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace trainctl;
using namespace trainctl::study;

TEST_CASE("make_run_folder: runs of one second get separate folders, latest is the last one") {
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

TEST_CASE("make_run_folder: a fixed folder is created, and must be empty if it exists") {
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

TEST_CASE("make_run_folder: the error for a second run in a fixed folder names the holder") {
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

TEST_CASE("make_run_folder: an unusable root is a resource error with its path") {
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

TEST_CASE("make_run_folder: a folder given by a link stays the same if the link changes") {
  const TempFolder root;
  const fs::path first = make_run_folder({.name = "x", .root = root.path()}).path;
  for (const char* name : {"latest", "latest/"}) {
    fs::remove(root / "x/latest");
    fs::create_directory_symlink(first.filename(), root / "x/latest");
    const RunFolder taken = make_run_folder(
        {.name = "x", .root = root.path(), .fixed = root / "x" / name, .if_used = IfUsed::resume});
    const fs::path second = make_run_folder({.name = "x", .root = root.path()}).path;
    CHECK(fs::canonical(root / "x/latest") == fs::canonical(second));
    CHECK(taken.path == fs::canonical(first));
    write_atomically(taken.path / "result.json", "{}");
    CHECK_FALSE(fs::exists(second / "result.json"));
  }
}

TEST_CASE("real_folder: removes links, dots and a trailing slash, also for a new folder") {
  const TempFolder root;
  fs::create_directories(root / "a");
  fs::create_directory_symlink("a", root / "link");
  const fs::path real = fs::canonical(root.path());
  CHECK(real_folder(root / "link/") == real / "a");
  CHECK(real_folder(root / "a/../link") == real / "a");
  CHECK(real_folder(root / "none/../link") == real / "a");
  CHECK(real_folder(root / "link/new/") == real / "a/new");
  CHECK(real_folder("new/") == fs::current_path() / "new");
  CHECK(real_folder("/") == "/");
}

TEST_CASE("newest_first: latest is first, then the names by time") {
  const TempFolder root;
  for (const char* name :
       {"20260101-000000-aaaa", "20260103-000000-aaaa", "mine", "20260102-000000-aaaa"})
    fs::create_directories(root / name);
  write_atomically(root / "notes.txt", "");
  fs::create_directory_symlink("20260102-000000-aaaa", root / "latest");
  const std::vector<fs::path> expected{root / "20260102-000000-aaaa", root / "mine",
                                       root / "20260103-000000-aaaa",
                                       root / "20260101-000000-aaaa"};
  CHECK(newest_first(root.path()) == expected);
  CHECK(newest_first(root / "nothing").empty());
}

TEST_CASE("folder_name: the result is always a folder within the root") {
  CHECK(folder_name("..") == "experiment");
  CHECK(folder_name("../../etc") == "..-..-etc");
  CHECK(folder_name("mnist-ffn_1.2") == "mnist-ffn_1.2");
}
