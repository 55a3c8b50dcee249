# Files that `cmake --install` installs, and the .deb that `cpack` builds (scripts/package.sh).
include(GNUInstallDirs)

install(TARGETS pfc-coordinator pfc-agent pfc-worker pfcctl DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
# Licences of the third-party code in the programs.
install(DIRECTORY third_party/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/third_party
  FILES_MATCHING PATTERN "LICENSE" PATTERN "README.md")
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  FILES_MATCHING PATTERN "*.json")

install(PROGRAMS scripts/landmarks_yunet.py DESTINATION ${CMAKE_INSTALL_DOCDIR}/scripts)
install(DIRECTORY deploy/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/deploy USE_SOURCE_PERMISSIONS)

# Man pages and completions are generated from --help, so they always agree with it.
add_custom_target(installable DEPENDS programs)
find_package(Python3 3.9 COMPONENTS Interpreter)
if(PFC_SANITIZE)
  message(STATUS "Man pages and completions: not made with sanitizers")
elseif(Python3_Interpreter_FOUND)
  set(share ${CMAKE_BINARY_DIR}/share)
  foreach(program pfc-coordinator pfc-agent pfc-worker pfcctl)
    set(made ${share}/man/man1/${program}.1 ${share}/bash-completion/completions/${program}
      ${share}/zsh/vendor-completions/_${program})
    add_custom_command(
      OUTPUT ${made}
      COMMAND Python3::Interpreter -B ${CMAKE_SOURCE_DIR}/scripts/program_docs.py
        --bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} --out ${share} --version ${PROJECT_VERSION}
        ${program}
      DEPENDS ${program} ${CMAKE_SOURCE_DIR}/scripts/program_docs.py
      VERBATIM)
    list(APPEND pfc_shared ${made})
  endforeach()
  add_custom_target(manual ALL DEPENDS ${pfc_shared})
  add_dependencies(installable manual)
  install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${share}/bash-completion ${share}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR})
else()
  message(STATUS "Man pages and completions: not made, there is no Python 3.9 or newer")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pfc)
set(CPACK_PACKAGE_CONTACT "The pfc authors <pfc@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains face-recognition models with very many classes")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# dpkg-shlibdeps derives the dependencies from the programs.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
