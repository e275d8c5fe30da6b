#include "run/loggers.hpp"

#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "cli/console.hpp"
#include "data/image/codec/png_write.hpp"
#include "study/run/loggers.hpp"

#include <cstdint>
#include <memory>
#include <system_error>
#include <vector>

namespace trainctl::app {
namespace {

/// Through a file beside the events, since that is what the one writer of PNG files makes.
report::tensorboard::Picture picture_of(const fs::path& folder, int width, int height,
                                        const std::vector<unsigned char>& rgb) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  const fs::path file = folder / ".picture.png";
  data::write_png(file, data::ImageView(rgb.data(), {height, width, 3}));
  report::tensorboard::Picture picture{
      .width = width, .height = height, .png = read_file(file, kMostBytes, ReadFailure::resource)};
  std::error_code ignored;
  fs::remove(file, ignored);
  return picture;
}

}  // namespace

study::MakeSinks loggers_of(const study::RunRequest& request, const Context& context) {
  const std::vector<std::string> columns = study::metric_columns(request.loaded.experiment);
  const auto starts = std::make_shared<int>(0);
  return [&request, &context, columns, starts](const fs::path& run_dir) {
    return study::make_loggers(
        {.run_dir = run_dir,
         .loaded = request.loaded,
         .console = console_options(context, columns),
         .version = request.version,
         .host = read_machine().host,
         .restarts = (*starts)++,
         .class_names = context.class_names,
         .picture = [run_dir](int width, int height, const std::vector<unsigned char>& rgb) {
           return picture_of(run_dir, width, height, rgb);
         }});
  };
}

}  // namespace trainctl::app
