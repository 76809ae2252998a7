#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "trainyard/place/placer.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace {

/// Whether the reader of standard output has gone, as `head` does; an error message would be of no use then.
bool output_has_no_reader() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int run_words(const std::vector<std::string>& words, Console& console) {
  try {
    const Command command = parse_command_line(words);
    if (!command.text.empty()) {
      console.print(command.text);
      return kDone;
    }
    console = Console{command.console};
    return command.run(console);
  } catch (const UsageError& error) {
    console.error("usage", error.what(), error.help());
    return kUsage;
  } catch (const NoPlacementError& error) {
    console.error(error);
    return kAnswerIsNo;
  } catch (const InputError& error) {
    if (output_has_no_reader()) return kNoReader;
    console.error(error);
    return kInput;
  } catch (const MissingError& error) {
    console.error("missing", error.what(), error.help());
    return kMissing;
  } catch (const std::bad_alloc&) {
    console.error("out-of-host-memory", "this machine does not have enough memory for the request",
                  "give a smaller model, or fewer models at once");
    return kMissing;
  } catch (const std::exception& error) {
    std::string line = "trainyard";
    for (const std::string& word : words) line += " " + word;
    console.error("internal", std::string{"an internal error, a bug: "} + error.what(),
                  "please report it with this command and its input files: " + line);
    return kInternal;
  }
}

/// Keeps freed memory in the process for reuse. Returning large blocks and having them zeroed again takes a tenth of
/// the time of large runs.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

/// Raises the limit on open files to the hard limit: a run may write a file per device for thousands of devices.
void raise_open_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

int run(const std::vector<std::string>& words) {
  keep_freed_memory();
  raise_open_files();
  Console console{words};
  catch_signals(console.json());
  return exit_code(run_words(words, console));
}

}  // namespace
}  // namespace trainyard::program

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  return trainyard::program::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
