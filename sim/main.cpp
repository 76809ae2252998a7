#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

int run(const std::vector<std::string>& words) {
  Console console{words};
  try {
    const Command command = parse_command_line(words);
    if (!command.text.empty()) {
      console.print(command.text);
      return kDone;
    }
    console = Console{command.arguments};
    for (const Verb& verb : kVerbs)
      if (verb.name == command.arguments.verb) return verb.run(command.arguments, console);
    throw std::logic_error("no function for the verb '" + command.arguments.verb + "'");
  } catch (const UsageError& error) {
    console.error("usage", error.what(), error.help());
    return kUsage;
  } catch (const InputError& error) {
    console.error(error);
    // A placer that finds no placement within the memories has an answer, too.
    return !error.findings().empty() && error.findings().front().code == "no-split" ? kAnswerIsNo : kInput;
  } catch (const MissingError& error) {
    console.error("missing", error.what(), error.help());
    return kMissing;
  } catch (const std::bad_alloc&) {
    console.error("out-of-host-memory", "this machine has not enough memory for the request",
                  "a smaller model, or fewer at once");
    return kMissing;
  } catch (const std::exception& error) {
    std::string line = "trainyard";
    for (const std::string& word : words) line += " " + word;
    console.error("internal", std::string{"an internal error, a bug: "} + error.what(),
                  "please report it with this command and its input files: " + line);
    return kInternal;
  }
}

}  // namespace
}  // namespace trainyard::program

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  trainyard::program::catch_interrupts();
  return trainyard::program::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
