#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;

TEST_CASE("nearest_file_hint: the closest file name in the same folder is suggested") {
  const TempFolder folder;
  put_text(folder / "mnist.yaml", "");
  put_text(folder / "cifar.yaml", "");
  CHECK(nearest_file_hint(folder / "minst.yaml") ==
        "did you mean '" + (folder / "mnist.yaml").string() + "'?");
  CHECK(nearest_file_hint(folder / "entirely-different.txt").empty());
}

TEST_CASE("nearest_file_hint: subfolders are searched, but not hidden ones") {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "configs/mnist");
  std::filesystem::create_directories(folder / ".hidden");
  put_text(folder / "configs/mnist/ffn.yaml", "");
  put_text(folder / ".hidden/secret.yaml", "");
  const std::string expected =
      "did you mean '" + (folder / "configs/mnist/ffn.yaml").string() + "'?";
  CHECK(nearest_file_hint(folder / "ffn.yaml") == expected);
  CHECK(nearest_file_hint(folder / "config/mnist/ffn.yaml") == expected);
  CHECK(nearest_file_hint(folder / "secret.yaml").empty());
  CHECK(nearest_file_hint(folder / "no-such-folder/none").empty());
}
