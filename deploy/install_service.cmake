# install_service.cmake - installs the service's units and configuration, with the folders of the prefix filled in.
#
# Variables: source and build, this folder in the source tree and in the build; bindir and sysconfdir, which can be relative.
if(NOT IS_ABSOLUTE "${sysconfdir}")
    if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
        set(sysconfdir /${sysconfdir})
    else()
        set(sysconfdir ${CMAKE_INSTALL_PREFIX}/${sysconfdir})
    endif()
endif()
if(NOT IS_ABSOLUTE "${bindir}")
    set(bindir ${CMAKE_INSTALL_PREFIX}/${bindir})
endif()

foreach(unit IN ITEMS tensord.service tensord.socket)
    file(READ ${source}/systemd/${unit} text)
    # Removes the comment that explains how to install the unit.
    string(REGEX REPLACE "#\n#   cmake [^\n]*\n" "#\n" text "${text}")
    string(REPLACE /usr/local/bin/ ${bindir}/ text "${text}")
    string(REPLACE /etc/tensord/ ${sysconfdir}/tensord/ text "${text}")
    file(WRITE ${build}/${unit} "${text}")
    # systemd looks for units in this folder below /usr and /usr/local.
    file(INSTALL ${build}/${unit} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
endforeach()

# Keeps a configuration that the administrator has written.
if(NOT EXISTS "$ENV{DESTDIR}${sysconfdir}/tensord/tensord.json")
    file(INSTALL ${source}/systemd/tensord.json DESTINATION ${sysconfdir}/tensord)
endif()
