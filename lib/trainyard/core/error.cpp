#include "trainyard/core/error.hpp"

namespace trainyard {

void refuse(std::string_view code, std::string message, std::string_view help, std::string_view pointer) {
  throw InputError({std::string{code}, std::move(message), std::string{help}, std::string{pointer}, {}});
}

}  // namespace trainyard
